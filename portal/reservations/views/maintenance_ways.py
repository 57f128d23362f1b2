"""Ways on for one reservation whose place goes out of service."""

import datetime as dt

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from psycopg2.extras import DateTimeTZRange

from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.forms import TAKEN
from portal.reservations.maintenance_ways import choices_for, maintenance_under
from portal.reservations.models import UNDER_WAY, Reservation
from portal.reservations.moving import change_window
from portal.reservations.story import may_change_here

RELATED = ("workload", "tenant", "profile", "owner", "pool")


@login_required
@require_http_methods(["GET", "POST"])
def maintenance_ways(request: PageRequest, number: int) -> HttpResponse:
    """GET shows up to three ways on; POST moves the reservation to the window of one of them."""
    shell = shell_of(request)
    reservation = get_object_or_404(shell.reservations.select_related(*RELATED), pk=number)
    if not may_change_here(shell, reservation):
        raise Http404
    if request.method != "POST":
        return _page(request, reservation)
    taken = TAKEN.fullmatch(request.POST.get("take", ""))
    if taken is None:
        return _page(request, reservation, _("Choose one of those that are offered."), 422)
    start, end = (dt.datetime.fromtimestamp(int(taken[place]), dt.UTC) for place in (4, 5))
    try:
        change_window(reservation=reservation, during=DateTimeTZRange(start, end, "[)"), actor=request.user)
    except ReservationRefused as refusal:
        return _page(request, reservation, refusal.message, refusal.status)
    messages.success(request, _("%(name)s is moved.") % {"name": reservation.workload.name})
    response = redirect("reservation", number=reservation.pk)
    response.status_code = 303
    return response


def _page(request: PageRequest, reservation: Reservation, refusal: str = "", status: int = 200) -> HttpResponse:
    under_way = reservation.state in UNDER_WAY
    context = {
        "reservation": reservation,
        "maintenance": maintenance_under(reservation) if under_way else [],
        "choices": choices_for(reservation) if under_way else [],
        "refusal": refusal,
    }
    return render(request, "nodes/maintenance_ways.html", context, status=status)
