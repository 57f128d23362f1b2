"""A guaranteed reservation makes room for itself: who borrows gives way, the youngest first, and is told.

A borrower that has run its protected minimum when the guaranteed window begins is cut short there; one that is not
frozen yet may give way as a whole. Nobody is displaced within the notice. What was not served is not charged, and waits
in the queue for another place. Call under the pool's lock.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.conf import settings
from psycopg2.extras import DateTimeTZRange

from portal.quotas.policies import policy_of
from portal.reservations.models import LIVE, OPEN, Lease, LeaseState, Reservation, State
from portal.reservations.request import Request
from portal.reservations.rules import Allowed
from portal.reservations.selectors import gpu_views, profiles_of, shape_of, window_of
from portal.tenants.models import Tenant
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import Placement


@dataclass(frozen=True)
class Victim:
    """A borrower that gives way; ``ends_at`` is where it is cut short, None when it gives way as a whole."""

    reservation: Reservation
    ends_at: dt.datetime | None


@dataclass(frozen=True)
class Claimed:
    """Where the guaranteed request sits once the victims have given way."""

    placements: tuple[Placement, ...]
    victims: tuple[Victim, ...]


def claim_room(
    request: Request, allowed: Allowed, now: dt.datetime, without: Iterable[int] = ()
) -> Claimed | None:
    """As few and as young victims as make room, or None when even all that may be displaced are not enough."""
    borrowers = _borrowers(request, allowed.during)
    frozen = _frozen(borrowers)
    found = (_victim(one, one.pk in frozen, allowed.during, now) for one in borrowers)
    willing = [victim for victim in found if victim is not None]
    fits = _fits(request, allowed, now, tuple(without))
    chosen: list[Victim] = []
    for victim in willing:
        chosen.append(victim)
        if fits(chosen):
            break
    else:
        return None
    for victim in list(reversed(chosen)):  # the oldest of them first: who need not go stays
        fewer = [one for one in chosen if one is not victim]
        if fits(fewer):
            chosen = fewer
    return Claimed(fits(chosen) or (), tuple(chosen))


def _borrowers(request: Request, during: DateTimeTZRange) -> list[Reservation]:
    rows = Reservation.objects.filter(
        pool=request.pool, borrowed=True, during__overlap=during, state__in=[*OPEN, State.REQUESTED]
    )
    if request.instead_of:
        rows = rows.exclude(pk=request.instead_of.pk)
    return list(rows.select_related("tenant", "profile", "owner", "workload").order_by("-created_at", "-pk"))


def _frozen(reservations: list[Reservation]) -> set[int]:
    """Ids of those of which an agent was told: they can be cut short, but not moved."""
    told = Lease.objects.filter(reservation__in=reservations, state__in=LIVE, frozen_at__isnull=False)
    return set(told.values_list("reservation_id", flat=True))


def _victim(borrower: Reservation, frozen: bool, during: DateTimeTZRange, now: dt.datetime) -> Victim | None:
    """How the borrower would give way, or None when it may not be displaced for this window."""
    told_in_time = now + settings.DISPLACE_NOTICE
    began = borrower.running_at or borrower.during.lower
    protected = dt.timedelta(seconds=policy_of(borrower.tenant).protected_seconds)
    if borrower.during.lower < during.lower and during.lower >= max(told_in_time, began + protected):
        return Victim(borrower, during.lower)
    may_go = not frozen and borrower.during.lower >= told_in_time
    return Victim(borrower, None) if may_go else None


def _fits(
    request: Request, allowed: Allowed, now: dt.datetime, moving: tuple[int, ...]
) -> Callable[[list[Victim]], tuple[Placement, ...]]:
    """A function from victims to the placements that they make room for, () for none."""
    during = allowed.during
    shapes = tuple(map(shape_of, profiles_of(request.pool)))
    leases = Lease.objects.filter(state__in=LIVE, reservation__pool=request.pool, during__overlap=during)
    if request.instead_of:
        leases = leases.exclude(reservation=request.instead_of)
    by_reservation: dict[int, list[Lease]] = defaultdict(list)
    for lease in leases.select_related("reservation__tenant"):
        by_reservation[lease.reservation_id].append(lease)

    def placements(victims: list[Victim]) -> tuple[Placement, ...]:
        gone = {victim.reservation.pk for victim in victims}
        left = [lease for key, rows in by_reservation.items() if key not in gone for lease in rows]
        if any(_peak(left, quota.tenant, during) + request.weight > quota.limit for quota in allowed.quotas):
            return ()
        gone_leases = [lease.pk for key in gone for lease in by_reservation[key] if lease.state != LeaseState.STOPPING]
        views = gpu_views(request.pool, during, now, without=[*moving, *gone_leases])
        return place_gang(shape_of(request.profile), request.ranks, views, window_of(during), shapes)

    return placements


def _peak(leases: list[Lease], tenant: Tenant, during: DateTimeTZRange) -> int:
    changes: dict[dt.datetime, int] = defaultdict(int)
    for lease in leases:
        if lease.reservation.tenant.path.startswith(tenant.path):
            changes[max(lease.during.lower, during.lower)] += lease.reservation.weight
            changes[lease.during.upper] -= lease.reservation.weight
    held = peak = 0
    for moment in sorted(changes):
        held += changes[moment] if moment < during.upper else 0
        peak = max(peak, held)
    return peak
