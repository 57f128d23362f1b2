"""Giving reservations that have not started another place: all ranks or none, the same window, no one else moved.

``propose`` only looks; under the locks ``rebind`` does what it proposed. A rank that a node knows of is withdrawn there
and handed to its new node once the old place is free.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Q
from psycopg2.extras import DateTimeTZRange, NumericRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Gpu, Pool
from portal.reservations.ending import MOVED, lock_reservations, withdraw_leases
from portal.reservations.models import BOUND, UNDER_WAY, Lease, LeaseState, Reservation
from portal.reservations.rebinding import bind
from portal.reservations.selectors import gpu_views, held_as, profiles_of, shape_of, window_of
from portal.reservations.telling import tell_pages
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import MAINTENANCE, GpuView, Held, Placement, Shape

RELATED = ("tenant", "pool", "profile", "owner", "workload")


@dataclass(frozen=True)
class Bound:
    """A reservation with the leases that serve its ranks, in order of rank."""

    reservation: Reservation
    leases: tuple[Lease, ...]

    @property
    def told(self) -> bool:
        """A node knows of it."""
        return any(lease.frozen_at is not None for lease in self.leases)

    @property
    def started(self) -> bool:
        return any(lease.state != LeaseState.PLANNED for lease in self.leases)

    @property
    def movable_ids(self) -> set[int]:
        """Leases whose span is free at once when they are taken away."""
        return {lease.pk for lease in self.leases if lease.frozen_at is None}


@dataclass(frozen=True)
class Shut:
    """GPUs that take nothing within ``during``; None is always."""

    gpu_ids: frozenset[int] = frozenset()
    during: DateTimeTZRange | None = None

    def seen(self, view: GpuView) -> GpuView | None:
        """The view with what is shut of it held, or None when nothing of it is left."""
        if view.gpu_id not in self.gpu_ids:
            return view
        if self.during is None:
            return None
        window = window_of(self.during)
        closed = Held(0, view.slices, window.start, window.end, MAINTENANCE)
        return replace(view, held=(*view.held, closed))


def bound_on(leases: Q, *, lock: bool = False) -> list[Bound]:
    """Reservations under way of which one of ``leases`` serves a rank, with all their leases; in order of id.

    ``lock`` takes the leases by id and then the reservations; the pools must be locked already.
    """
    here = Lease.objects.filter(leases, state__in=BOUND, reservation__state__in=UNDER_WAY).values("reservation")
    rows = Lease.objects.filter(reservation__in=here, state__in=BOUND).select_related("gpu__node")
    if lock:
        rows = rows.select_for_update(no_key=True, of=("self",))
    held: dict[int, list[Lease]] = defaultdict(list)
    for lease in rows.order_by("pk"):
        held[lease.reservation_id].append(lease)
    if lock:
        lock_reservations(held)
    found = Reservation.objects.filter(pk__in=held, state__in=UNDER_WAY).select_related(*RELATED).order_by("pk")
    return [Bound(one, tuple(sorted(held[one.pk], key=lambda lease: lease.rank))) for one in found]


def propose(
    pool: Pool, wanting: Sequence[Bound], now: dt.datetime, shut: Shut
) -> dict[int, tuple[Placement, ...]]:
    """Another place for each reservation that has one, by its id. Guaranteed ones choose first, then who came first.

    Each is placed as if those before it had moved, so that all may move together. Nobody gives way for them.
    """
    movable = [one for one in wanting if not one.started and one.reservation.pool_id == pool.pk]
    if not movable:
        return {}
    board = _Board(pool, movable, now, shut)
    found = {}
    for one in sorted(movable, key=lambda one: (one.reservation.borrowed, one.reservation.pk)):
        placements = board.place(one)
        if placements:
            found[one.reservation.pk] = placements
    return found


class _Board:
    """The pool's GPUs while reservations are being moved about on them; in memory only."""

    def __init__(self, pool: Pool, movable: Sequence[Bound], now: dt.datetime, shut: Shut) -> None:
        windows = [one.reservation.during for one in movable]
        hull = DateTimeTZRange(min(one.lower for one in windows), max(one.upper for one in windows), "[)")
        away = set().union(*(one.movable_ids for one in movable))
        seen = (shut.seen(view) for view in gpu_views(pool, hull, now, without=away))
        self.views = [view for view in seen if view is not None]
        self.shapes: tuple[Shape, ...] = tuple(map(shape_of, profiles_of(pool)))
        # What each reservation holds of the board now, where it was or where it was moved to.
        self.held: dict[int, list[tuple[int, Held]]] = {
            one.reservation.pk: [
                (lease.gpu_id, held_as(lease.span, lease.during, lease.state, one.reservation.profile.name, now))
                for lease in one.leases
                if lease.frozen_at is None
            ]
            for one in movable
        }

    def place(self, one: Bound) -> tuple[Placement, ...]:
        reservation = one.reservation
        placements = place_gang(
            shape_of(reservation.profile), reservation.ranks, self._without(reservation.pk),
            window_of(reservation.during), self.shapes)  # fmt: skip
        if placements:
            self.held[reservation.pk] = [
                (place.gpu_id, held_as(NumericRange(place.start, place.end), reservation.during, LeaseState.PLANNED,
                                       reservation.profile.name, reservation.during.lower))
                for place in placements
            ]  # fmt: skip
        return placements

    def _without(self, reservation_id: int) -> list[GpuView]:
        by_gpu: dict[int, list[Held]] = defaultdict(list)
        for key, places in self.held.items():
            for gpu_id, held in places if key != reservation_id else ():
                by_gpu[gpu_id].append(held)
        return [replace(view, held=(*view.held, *by_gpu.get(view.gpu_id, ()))) for view in self.views]


def propose_all(wanting: Sequence[Bound], now: dt.datetime, shut: Shut) -> dict[int, tuple[Placement, ...]]:
    """:func:`propose` for reservations of several pools."""
    pools = {one.reservation.pool_id: one.reservation.pool for one in wanting}
    found: dict[int, tuple[Placement, ...]] = {}
    for _pool_id, pool in sorted(pools.items()):
        found |= propose(pool, wanting, now, shut)
    return found


def take_away(moving: Iterable[Bound]) -> None:
    """First of all that move together, then each ``settle``s: their new places may be the old ones of another."""
    withdraw_leases([lease for one in moving for lease in one.leases], MOVED)


def settle(
    one: Bound, placements: Sequence[Placement], now: dt.datetime, *, because: str, actor: User | None = None
) -> None:
    """Bind what was taken away to its new place."""
    reservation = one.reservation
    bind(reservation, reservation.profile, placements, now, freeze=not one.told)
    gpus = Gpu.objects.select_related("node").in_bulk([place.gpu_id for place in placements])
    record_change(
        actor=actor, action="reservation.replaced", subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"places": [f"{lease.gpu} {lease.span.lower}:{lease.span.upper}" for lease in one.leases]},
        after={"places": [f"{gpus[place.gpu_id]} {place.start}:{place.end}" for place in placements],
               "because": because})  # fmt: skip
    tell_pages(reservation)


def move_all(
    moving: Iterable[Bound], places: Mapping[int, Sequence[Placement]], now: dt.datetime, *, because: str,
    actor: User | None = None,
) -> list[Bound]:  # fmt: skip
    """Move those that have a place; returns them. Call under the pools' locks, with the leases locked."""
    moved = [one for one in moving if one.reservation.pk in places]
    take_away(moved)
    for one in moved:
        settle(one, places[one.reservation.pk], now, because=because, actor=actor)
    return moved
