"""Changing one's mind: extend with one click, or another window and name, with what it would do before it is done."""

import datetime as dt

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from psycopg2.extras import DateTimeTZRange

from portal.reservations.change_form import EXTEND, ChangeForm, extended
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import BOUND, OPEN, UNDER_WAY, LeaseState, Reservation
from portal.reservations.moving import change_reservation
from portal.reservations.selectors import reservations_of
from portal.reservations.story import may_change_here
from portal.reservations.templatetags.berth_format import window
from portal.reservations.trying import Outcome, free_until, outcome_of

RELATED = ("workload", "tenant", "profile", "owner", "pool")
STEPS = (dt.timedelta(hours=1), dt.timedelta(hours=2))


@login_required
@require_http_methods(["GET", "POST"])
def reservation_change(request: PageRequest, number: int) -> HttpResponse:
    """GET shows the form, with what the values in the address would do; htmx gets that alone. POST changes.

    POST with ``extend`` seconds takes nothing else of the form.
    """
    reservation = get_object_or_404(reservations_of(request.user).select_related(*RELATED), pk=number)
    if not may_change_here(shell_of(request), reservation):
        raise Http404
    leases = list(reservation.leases.filter(state__in=BOUND))
    started = any(lease.state != LeaseState.PLANNED for lease in leases)
    if request.method == "POST":
        return _post(request, reservation, started)
    form = ChangeForm(reservation, started, request.GET)
    asked = "end_date" in request.GET
    outcome = _outcome(request, form) if asked and form.is_valid() and form.new_window else None
    context = {"form": form, "outcome": outcome, "asked": asked, "reservation": reservation}
    if request.htmx:
        return render(request, "reservations/change_outcome.html", context)
    return _page(request, reservation, context)


def _outcome(request: PageRequest, form: ChangeForm) -> Outcome | None:
    during = form.new_window
    return outcome_of(form.reservation, during, request.user) if during is not None else None


def _page(request: PageRequest, reservation: Reservation, context: dict, status: int = 200) -> HttpResponse:
    """``context`` has the form; options are looked for only while the window can be changed at all."""
    until = free_until(reservation)
    context |= {
        "reservation": reservation,
        "can_move": reservation.state in OPEN,
        "can_change": reservation.state in UNDER_WAY,
        "free_until": until,
        "options": _options(request, reservation, until) if reservation.state in OPEN else [],
    }
    return render(request, "reservations/change.html", context, status=status)


def _options(request: PageRequest, reservation: Reservation, until: dt.datetime | None) -> list[Outcome]:
    """An hour, two hours, and as long as its place is free."""
    ends = [reservation.ends_at + step for step in STEPS]
    if until is not None and until > reservation.ends_at and until not in ends:
        ends.append(until)
    windows = [DateTimeTZRange(reservation.starts_at, end, "[)") for end in sorted(ends)]
    return [outcome_of(reservation, during, request.user) for during in windows]


def _post(request: PageRequest, reservation: Reservation, started: bool) -> HttpResponse:
    form = ChangeForm(reservation, started, None if EXTEND in request.POST else request.POST)
    valid = form.is_valid()
    during, name = form.new_window, form.new_name if valid else None
    if EXTEND in request.POST:
        during, name = extended(reservation, request.POST[EXTEND]), None
        valid = during is not None
    if not valid:
        return _page(request, reservation, {"form": form, "asked": True}, 422)
    try:
        changed = change_reservation(reservation=reservation, actor=request.user, during=during, name=name)
    except ReservationRefused as refusal:
        form.refuse(refusal)
        return _page(request, reservation, {"form": form, "refusal": refusal, "asked": True}, refusal.status)
    if during is not None:
        told = {"name": changed.workload.name, "window": window(changed.during)}
        messages.success(request, _("%(name)s is now %(window)s.") % told)
    elif name is not None:
        messages.success(request, _("Renamed to %(name)s.") % {"name": name})
    response = redirect("reservation", number=changed.pk)
    response.status_code = 303
    return response
