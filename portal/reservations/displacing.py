"""A guaranteed reservation makes room for itself: who borrows gives way, the youngest first, and is told.

A borrower that has run its protected minimum when the guaranteed window begins is cut short there; one that is not
frozen yet may give way as a whole. Nobody is displaced within the notice. Borrowed leases are frozen no earlier than
that notice before their start, so that one of the two is possible for everybody who was told in time. What was not
served is not charged, and waits in the queue for another place. Call under the pool's lock.
"""

import bisect
import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from psycopg2.extras import DateTimeTZRange

from portal.quotas.policies import policies_of
from portal.reservations.borrowing import borrowers_in, promote
from portal.reservations.ending import MOVED
from portal.reservations.models import BOUND, LIVE, Lease, LeaseState, Reservation, State
from portal.reservations.outlook import Holding, peak_below
from portal.reservations.policy_rules import quotas_met
from portal.reservations.request import Request
from portal.reservations.rules import Allowed
from portal.reservations.selectors import gpu_views, held_as, leases_held, profiles_of, shape_of, window_of
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import GpuView, Held, Placement
from scheduler.placement.trial import Move

Place = Callable[[Sequence[GpuView]], tuple[Placement, ...]]


@dataclass(frozen=True)
class Victim:
    """A borrower that gives way; ``ends_at`` is where it is cut short, None when it gives way as a whole."""

    reservation: Reservation
    ends_at: dt.datetime | None


@dataclass(frozen=True)
class Claimed:
    """Where a request sits once the victims have given way, or the moves were made."""

    placements: tuple[Placement, ...]
    victims: tuple[Victim, ...] = ()
    moves: tuple[Move, ...] = ()


def claim_room(
    request: Request, allowed: Allowed, now: dt.datetime, without: Iterable[int] = (), place: Place | None = None
) -> Claimed | None:
    """As few and as young victims as make room, or None when even all that may be displaced are not enough.

    Borrowers whose tenant's guarantee covers them by now are no victims, and become guaranteed. ``place`` says where
    the request may sit; without it, anywhere.
    """
    room = _Room(request, allowed, now, tuple(without), place or anywhere(request, allowed.during))
    willing = room.willing
    if not willing or not room.fits(willing):
        return None
    enough = bisect.bisect_left(range(len(willing) + 1), True, key=lambda count: room.fits(willing[:count]))
    chosen = willing[:enough]
    for victim in reversed(chosen):  # the oldest of them first: who need not go stays
        fewer = [one for one in chosen if one is not victim]
        if room.fits(fewer):
            chosen = fewer
    return Claimed(room.placements(chosen), tuple(chosen))


def anywhere(request: Request, during: DateTimeTZRange) -> Place:
    """Any place in the pool for the whole window, or on the node that the request names."""
    shapes, window, node_id = tuple(map(shape_of, profiles_of(request.pool))), window_of(during), request.node_id

    def place(views: Sequence[GpuView]) -> tuple[Placement, ...]:
        mine = [view for view in views if node_id in (None, view.node_id)]
        return place_gang(shape_of(request.profile), request.ranks, mine, window, shapes)

    return place


class _Room:
    """The pool within the window, for any choice of victims. More victims never make less room."""

    def __init__(self, request: Request, allowed: Allowed, now: dt.datetime, moving: tuple[int, ...], place: Place):
        during = allowed.during
        borrowers = borrowers_in(request.pool, during, but=request.instead_of)
        promoted = promote(borrowers)
        borrowers = [one for one in borrowers if one.pk not in promoted]
        leases = _leases_of(borrowers)
        self.willing = _willing(borrowers, leases, during, now)
        self._place, self._weight = place, request.weight
        self._leases = {one.reservation.pk: leases[one.reservation.pk] for one in self.willing}
        going = [lease for rows in self._leases.values() for lease in rows]
        self._held = [(lease, held_as(lease.span, lease.during, lease.state, _shape(lease), now)) for lease in going]
        away = {lease.pk for lease in going}
        self._views = gpu_views(request.pool, during, now, without=[*moving, *away])
        self._quotas = quotas_met(allowed.quotas, during)
        self._staying = [
            _holding(lease)
            for lease in leases_held(request.pool, during, request.instead_of).select_related("reservation__tenant")
            if lease.pk not in away
        ]

    def fits(self, victims: Sequence[Victim]) -> bool:
        return self._within_limits(victims) and bool(self.placements(victims))

    def placements(self, victims: Sequence[Victim]) -> tuple[Placement, ...]:
        gone = {victim.reservation.pk for victim in victims}
        back: dict[int, list[Held]] = defaultdict(list)
        for lease, held in self._held:
            if lease.reservation_id not in gone:
                back[lease.gpu_id].append(held)
        return self._place([replace(view, held=view.held + tuple(back[view.gpu_id])) for view in self._views])

    def _within_limits(self, victims: Sequence[Victim]) -> bool:
        gone = {victim.reservation.pk for victim in victims}
        staying = self._staying + [_holding(lease) for lease, _held in self._held if lease.reservation_id not in gone]
        return all(
            peak_below(quota.tenant.path, part, staying) + self._weight <= quota.limit for quota, part in self._quotas
        )


def _leases_of(borrowers: Sequence[Reservation]) -> dict[int, list[Lease]]:
    """Live leases by reservation, without those that a move left behind: they go in any case."""
    rows = Lease.objects.filter(reservation__in=borrowers, state__in=LIVE).exclude(end_reason=MOVED)
    found: dict[int, list[Lease]] = defaultdict(list)
    for lease in rows.select_related("reservation__tenant", "reservation__profile"):
        found[lease.reservation_id].append(lease)
    return found


def _willing(
    borrowers: Sequence[Reservation], leases: dict[int, list[Lease]], during: DateTimeTZRange, now: dt.datetime
) -> list[Victim]:
    policies = policies_of({one.tenant_id: one.tenant for one in borrowers}.values()) if borrowers else {}
    found = (
        _victim(one, leases[one.pk], during, now, policies[one.tenant_id].protected_seconds)
        for one in borrowers
        if leases[one.pk] and all(lease.state in BOUND for lease in leases[one.pk])
    )
    return [victim for victim in found if victim is not None]


def _victim(
    borrower: Reservation, leases: Sequence[Lease], during: DateTimeTZRange, now: dt.datetime, protected_seconds: int
) -> Victim | None:
    """How the borrower would give way, or None when it may not be displaced for this window."""
    if borrower.state == State.QUEUED:  # an offer that was not taken yet
        return Victim(borrower, None)
    told_in_time = now + settings.DISPLACE_NOTICE
    began = borrower.running_at or borrower.during.lower
    protected = dt.timedelta(seconds=protected_seconds)
    if borrower.during.lower < during.lower and during.lower >= max(told_in_time, began + protected):
        return Victim(borrower, during.lower)
    frozen = any(lease.frozen_at is not None or lease.state != LeaseState.PLANNED for lease in leases)
    return Victim(borrower, None) if not frozen and borrower.during.lower >= told_in_time else None


def _shape(lease: Lease) -> str:
    return lease.reservation.profile.name


def _holding(lease: Lease) -> Holding:
    window, reservation = lease.during, lease.reservation
    return Holding(window.lower, window.upper, reservation.weight, reservation.tenant.path)
