"""The queue of a pool for everyone, and the two answers to an offer."""

import re

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Reservation
from portal.reservations.queue_line import pools_with_lines, queue_view
from portal.reservations.selectors import reservations_of
from portal.reservations.story import may_change_here
from portal.reservations.waitlist import accept_offer, decline_offer

ID = re.compile(r"[0-9]{1,18}")


@login_required
@require_GET
def queue(request: PageRequest) -> HttpResponse:
    """Who waits in one pool, at first where the reader does, or anybody. Others' requests have no names."""
    pools = pools_with_lines(request.user)
    wanted = request.GET.get("pool", "")
    pool = max(pools, key=lambda one: (one.mine > 0, one.waiting > 0), default=None)  # type: ignore[attr-defined]
    if ID.fullmatch(wanted):
        pool = next((one for one in pools if one.pk == int(wanted)), None)
        if pool is None:
            raise Http404
    seen = {tenant.pk for tenant in shell_of(request).tenants}
    shown = queue_view(pool, seen, timezone.now()) if pool else None
    return render(request, "reservations/queue.html", {"pools": pools, "pool": pool, "queue": shown})


@login_required
@require_POST
def offer_accept(request: PageRequest, number: int) -> HttpResponse:
    reservation = _mine(request, number)
    try:
        taken = accept_offer(reservation=reservation, actor=request.user)
    except ReservationRefused as refusal:
        messages.error(request, refusal.message)
        return _see(reservation)
    waits = _("A lead decides about %(name)s; its place is held until then.")
    said = _("Reserved: %(name)s.") if taken.state == "confirmed" else waits
    messages.success(request, said % {"name": taken.workload.name})
    return _see(taken)


@login_required
@require_POST
def offer_decline(request: PageRequest, number: int) -> HttpResponse:
    reservation = _mine(request, number)
    try:
        decline_offer(reservation=reservation, actor=request.user)
    except ReservationRefused as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, _("Declined. It goes to the next in line."))
    return _see(reservation)


def _mine(request: PageRequest, number: int) -> Reservation:
    rows = reservations_of(request.user).select_related("workload", "tenant", "pool", "owner")
    reservation = get_object_or_404(rows, pk=number)
    if not may_change_here(shell_of(request), reservation):
        raise Http404
    return reservation


def _see(reservation: Reservation) -> HttpResponse:
    response = redirect("reservation", number=reservation.pk)
    response.status_code = 303
    return response
