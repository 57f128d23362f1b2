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
from portal.reservations.extending import Tries
from portal.reservations.models import BOUND, LIVE, MOVED, OPEN, UNDER_WAY, Lease, LeaseState, Reservation
from portal.reservations.moving import change_reservation
from portal.reservations.story import may_change_here
from portal.reservations.templatetags.berth_format import window
from portal.reservations.trying import Outcome
from portal.tenants.models import Role

RELATED = ("workload", "tenant", "profile", "owner", "pool")
STEPS = (dt.timedelta(hours=1), dt.timedelta(hours=2))


@login_required
@require_http_methods(["GET", "POST"])
def reservation_change(request: PageRequest, number: int) -> HttpResponse:
    """GET shows the form, with what the values in the address would do; htmx gets that alone. POST changes.

    POST with ``extend`` seconds takes nothing else of the form.
    """
    shell = shell_of(request)
    reservation = get_object_or_404(shell.reservations.select_related(*RELATED), pk=number)
    if not may_change_here(shell, reservation):
        raise Http404
    leases = list(reservation.leases.filter(state__in=LIVE).exclude(end_reason=MOVED))
    started = any(lease.state in BOUND and lease.state != LeaseState.PLANNED for lease in leases)
    tries = _tries(request, reservation, leases)
    if request.method == "POST":
        return _post(request, reservation, started, tries)
    form = ChangeForm(reservation, started, request.GET)
    asked = "end_date" in request.GET
    outcome = _outcome(tries, form) if asked and form.is_valid() and form.new_window else None
    context = {"form": form, "outcome": outcome, "asked": asked, "reservation": reservation}
    if request.htmx:
        return render(request, "reservations/change_outcome.html", context)
    return _page(request, reservation, tries, context)


def _tries(request: PageRequest, reservation: Reservation, leases: list[Lease]) -> Tries:
    shell, tenant = shell_of(request), reservation.tenant
    mine = reservation.owner_id == request.user.pk
    known_member = mine and tenant.closed_at is None and shell.may(tenant, Role.MEMBER)
    return Tries(reservation, leases, request.user, leads=shell.may(tenant, Role.LEAD), known_member=known_member)


def _outcome(tries: Tries, form: ChangeForm) -> Outcome | None:
    during = form.new_window
    return tries.outcome(during) if during is not None else None


def _page(
    request: PageRequest, reservation: Reservation, tries: Tries, context: dict, status: int = 200
) -> HttpResponse:
    """``context`` has the form; options are looked for only while the window can be changed at all."""
    until = tries.free_until
    context |= {
        "reservation": reservation,
        "can_move": reservation.state in OPEN,
        "can_change": reservation.state in UNDER_WAY,
        "free_until": until,
        "options": _options(tries, reservation, until) if reservation.state in OPEN else [],
    }
    return render(request, "reservations/change.html", context, status=status)


def _options(tries: Tries, reservation: Reservation, until: dt.datetime | None) -> list[Outcome]:
    """An hour, two hours, and as long as its place is free."""
    ends = [reservation.ends_at + step for step in STEPS]
    if until is not None and until > reservation.ends_at and until not in ends:
        ends.append(until)
    windows = [DateTimeTZRange(reservation.starts_at, end, "[)") for end in sorted(ends)]
    return [tries.outcome(during) for during in windows]


def _post(request: PageRequest, reservation: Reservation, started: bool, tries: Tries) -> HttpResponse:
    form = ChangeForm(reservation, started, None if EXTEND in request.POST else request.POST)
    valid = form.is_valid()
    during, name = form.new_window, form.new_name if valid else None
    if EXTEND in request.POST:
        during, name = extended(reservation, request.POST[EXTEND]), None
        valid = during is not None
    if not valid:
        return _page(request, reservation, tries, {"form": form, "asked": True}, 422)
    try:
        changed = change_reservation(reservation=reservation, actor=request.user, during=during, name=name)
    except ReservationRefused as refusal:
        form.refuse(refusal)
        return _page(request, reservation, tries, {"form": form, "refusal": refusal, "asked": True}, refusal.status)
    if during is not None:
        told = {"name": changed.workload.name, "window": window(changed.during)}
        messages.success(request, _("%(name)s is now %(window)s.") % told)
    elif name is not None:
        messages.success(request, _("Renamed to %(name)s.") % {"name": name})
    response = redirect("reservation", number=changed.pk)
    response.status_code = 303
    return response
