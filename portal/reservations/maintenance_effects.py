"""What taking GPUs out of service does to the reservations on them: the same for maintenance and for draining.

``affected_by`` only looks. ``carry_out`` does it, under the locks of the pools concerned.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.reservations.ending import CLOSED, close_reservation, withdraw_leases
from portal.reservations.giving_way import requeue
from portal.reservations.maintenance_closing import Closing, Fate
from portal.reservations.maintenance_notices import tell_effect, tell_moved
from portal.reservations.models import Lease, Reservation, State
from portal.reservations.rebinding import lock_nodes, set_window, touch_pool
from portal.reservations.replacing import Bound, bound_on, move_all, propose_all
from portal.reservations.telling import tell_pages
from scheduler.placement.geometry import Placement

# What has a place for now, without being promised it.
HELD = (State.REQUESTED, State.QUEUED)


@dataclass(frozen=True)
class Effect:
    """What becomes of one reservation; ``ends_at`` is where it is cut short."""

    bound: Bound
    fate: Fate
    placements: tuple[Placement, ...] = ()
    ends_at: dt.datetime | None = None

    @property
    def reservation(self) -> Reservation:
        return self.bound.reservation


@dataclass(frozen=True)
class Affected:
    """In order of the reservations' start; each is affected in one way."""

    effects: tuple[Effect, ...] = ()

    def of(self, *fates: Fate) -> list[Effect]:
        return [effect for effect in self.effects if effect.fate in fates]

    def beyond(self, before: DateTimeTZRange) -> "Affected":
        """Without those that had no place within the window as it was before: they are told already."""
        known = [one for one in self.of(Fate.STAYS) if _overlap(one.reservation.during, before)]
        return Affected(tuple(one for one in self.effects if one not in known))

    @property
    def counts(self) -> dict[str, int]:
        return {fate.value: len(self.of(fate)) for fate in Fate}

    @property
    def owners(self) -> int:
        return len({effect.reservation.owner_id for effect in self.effects})

    @property
    def tenants(self) -> int:
        return len({effect.reservation.tenant_id for effect in self.effects})


def _overlap(one: DateTimeTZRange, other: DateTimeTZRange) -> bool:
    return one.lower < other.upper and other.lower < one.upper


def affected_by(closing: Closing, now: dt.datetime, *, lock: bool = False) -> Affected:
    """Who is affected and how, as ``carry_out`` would do it now; ``lock`` takes their leases and rows."""
    bound = bound_on(closing.leases, lock=lock)
    places = propose_all([one for one in bound if not one.started], now, closing.shut())
    found = [_effect(one, places.get(one.reservation.pk, ()), closing) for one in bound]
    effects = [effect for effect in found if effect is not None]
    return Affected(tuple(sorted(effects, key=lambda effect: (effect.reservation.during.lower, effect.reservation.pk))))


def _effect(one: Bound, placements: tuple[Placement, ...], closing: Closing) -> Effect | None:
    """None where it is not affected: it ends before anything stops."""
    reservation, stops_at = one.reservation, closing.stops_at
    if placements:
        return Effect(one, Fate.MOVED, placements)
    if reservation.state == State.QUEUED:
        return Effect(one, Fate.LAPSES)
    if stops_at is None:
        return Effect(one, Fate.RUNS if one.told else Fate.STAYS)
    if reservation.during.upper <= stops_at:
        return Effect(one, Fate.RUNS) if closing.for_good else None
    if not one.told:
        return Effect(one, Fate.STAYS)
    if can_be_cut(one, stops_at):
        return Effect(one, Fate.CUT, ends_at=stops_at)
    return Effect(one, Fate.DISPLACED)


def can_be_cut(one: Bound, stops_at: dt.datetime) -> bool:
    """What runs is cut wherever it is; what has not started only where a window is left that could be booked."""
    during = one.reservation.during
    shortest = dt.timedelta(seconds=one.reservation.pool.shortest_window_seconds)
    return during.lower < stops_at if one.started else during.lower + shortest <= stops_at


def carry_out(affected: Affected, closing: Closing, now: dt.datetime, actor: User | None) -> None:
    """Move what has a place, cut short what runs, take out what cannot stay, and tell every owner."""
    moved = affected.of(Fate.MOVED)
    lock_nodes(_gpu_ids(affected.effects))
    places = {effect.reservation.pk: effect.placements for effect in moved}
    move_all([effect.bound for effect in moved], places, now, because=closing.what, actor=actor)
    tell_moved([effect.reservation for effect in moved], closing)
    for effect in affected.effects:
        if effect.fate not in (Fate.RUNS, Fate.MOVED):
            _carry_out(effect, closing, now, actor)


def _gpu_ids(effects: Iterable[Effect]) -> list[int]:
    """Of every place that is given up or taken: their nodes are locked at once, in order."""
    leases = [lease.gpu_id for effect in effects for lease in effect.bound.leases]
    return leases + [place.gpu_id for effect in effects for place in effect.placements]


def _carry_out(effect: Effect, closing: Closing, now: dt.datetime, actor: User | None) -> None:
    one, reservation, rest = effect.bound, effect.reservation, None
    planned_end = reservation.during.upper
    if effect.fate == Fate.CUT and effect.ends_at:
        cut(one, effect.ends_at)
    elif effect.fate in (Fate.DISPLACED, Fate.LAPSES):
        rest = take_out(one, now)
    if effect.fate in (Fate.CUT, Fate.DISPLACED, Fate.LAPSES):
        ends_at = effect.ends_at or (max(now, reservation.during.lower) if one.started else reservation.during.lower)
        record_change(
            actor=actor, action="reservation.displaced", subject=reservation.number, tenant_id=reservation.tenant_id,
            before={"end": planned_end.isoformat()},
            after={"end": ends_at.isoformat(), "by": closing.what, "rest": rest.number if rest else ""})  # fmt: skip
    tell_effect(reservation, effect.fate, closing, ends_at=effect.ends_at, rest=rest)


def cut(one: Bound, ends_at: dt.datetime) -> None:
    during = one.reservation.during
    set_window(one.reservation, one.leases, DateTimeTZRange(during.lower, ends_at, "[)"))


def take_out(one: Bound, now: dt.datetime) -> Reservation | None:
    """Withdraw every rank. What was promised and has not begun waits in the queue: that is returned. An offer is
    taken back and waits on; what was only held for an answer is refused; what runs ends as displaced."""
    reservation = one.reservation
    ids = [lease.pk for lease in one.leases]
    Lease.objects.filter(pk__in=ids, end_reason="").update(end_reason=CLOSED)
    withdraw_leases(list(one.leases), CLOSED)
    rest = None
    if reservation.state == State.QUEUED:
        Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED).update(hold_expires_at=None)
    elif reservation.state == State.CONFIRMED and not one.started:
        rest = requeue(reservation, reservation.planned_seconds, not_before=reservation.during.lower, now=now)
    close_reservation(reservation.pk)
    touch_pool(reservation.pool_id)
    tell_pages(reservation)
    return rest


def clear(closing: Closing, now: dt.datetime) -> int:
    """What the sweep does when the time comes: a notice before ``stops_at`` what overruns it is cut short there, and
    from then on whatever is left is taken out. Returns how many. Call under the locks of the pools concerned."""
    stops_at = closing.stops_at
    if stops_at is None or now < stops_at - settings.DISPLACE_NOTICE:
        return 0
    late = bound_on(Q(pk__in=closing.overrun(now).values("pk")), lock=True)
    effects = [
        Effect(one, Fate.LAPSES if one.reservation.state in HELD else Fate.DISPLACED) for one in late
    ]
    if now < stops_at:
        effects = [Effect(one, Fate.CUT, ends_at=stops_at) for one in late if can_be_cut(one, stops_at)]
    lock_nodes(_gpu_ids(effects))
    for effect in effects:
        _carry_out(effect, closing, now, actor=None)
    return len(effects)
