"""What happens to a borrower that gives way: cut short or taken out, told, not charged for the rest, and requeued."""

import datetime as dt
from collections.abc import Iterable

from django.db.models import QuerySet
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal import events
from portal.audit.services import record_change
from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.displacing import Claimed, Victim
from portal.reservations.ending import MOVED, end_question, lock_reservations, withdraw_leases
from portal.reservations.models import BOUND, LIVE, UNDER_WAY, Decision, EndReason, Lease, Reservation, State, Wait
from portal.reservations.rearranging import rearrange
from portal.reservations.rebinding import lock_nodes, set_window, touch_pool
from portal.reservations.telling import tell_owner
from portal.workloads.models import Workload

# So long a displaced rest looks for another place before it is given up.
REQUEUE = dt.timedelta(days=7)


def make_way(claimed: Claimed, by: Reservation, now: dt.datetime, own: Iterable[Lease] = ()) -> None:
    """Make the moves, and let every victim give way for ``by``. ``own`` are its leases that are about to be withdrawn,
    or were just now.

    Locks the victims' leases, their reservations, and then at once every node that this claim touches: whatever raises
    a generation later in the transaction finds it locked.
    """
    own = list(own)
    rearrange(by.pool, claimed.moves, because=by.number)
    if not claimed.victims and not own:
        return
    ids = [victim.reservation.pk for victim in claimed.victims]
    leases = list(_bound(ids))
    lock_reservations(ids)
    lock_nodes([lease.gpu_id for lease in [*leases, *own]] + [placement.gpu_id for placement in claimed.placements])
    for victim in claimed.victims:
        give_way(victim, by=by, now=now)


def give_way(victim: Victim, by: Reservation | None, now: dt.datetime) -> Reservation | None:
    """Free what the victim gives up and queue the rest; returns the queued one, if there is a rest worth it.

    Locks the victim's leases and row.
    """
    reservation = victim.reservation
    if reservation.state == State.QUEUED:
        _lose_offer(reservation)
        return None
    leases, planned = list(_bound([reservation.pk])), reservation.during
    if victim.ends_at is None:
        _take_out(reservation, leases, now)
        lost_seconds = reservation.planned_seconds
    else:
        set_window(reservation, leases, DateTimeTZRange(planned.lower, victim.ends_at, "[)"))
        lost_seconds = int((planned.upper - victim.ends_at).total_seconds())
    rest = None
    if lost_seconds >= reservation.pool.shortest_window_seconds:
        rest = requeue(reservation, lost_seconds, not_before=victim.ends_at or planned.lower, now=now)
    _tell(reservation, rest, victim, by, lost_seconds)
    return rest


def _bound(reservation_ids: Iterable[int]) -> QuerySet[Lease]:
    rows = Lease.objects.select_for_update(no_key=True).filter(reservation__in=list(reservation_ids), state__in=LIVE)
    return rows.filter(state__in=BOUND).exclude(end_reason=MOVED).order_by("pk")


def _take_out(reservation: Reservation, leases: list[Lease], now: dt.datetime) -> None:
    withdraw_leases(leases)
    touch_pool(reservation.pool_id)
    Reservation.objects.filter(pk=reservation.pk, state__in=UNDER_WAY).update(
        state=State.ENDED, end_reason=EndReason.DISPLACED, ended_at=now, hold_expires_at=None
    )
    end_question(reservation, Decision.WITHDRAWN)


def _lose_offer(reservation: Reservation) -> None:
    """It keeps its place in the queue."""
    withdraw_leases(list(_bound([reservation.pk])))
    touch_pool(reservation.pool_id)
    Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED).update(hold_expires_at=None)
    tell_owner(reservation, Kind.OFFER_LAPSED)


def requeue(reservation: Reservation, seconds: int, not_before: dt.datetime, now: dt.datetime) -> Reservation:
    """The unserved rest as a request of its own that waits for a place; it names what it continues."""
    workload = Workload.objects.get(pk=reservation.workload_id)
    workload.pk = None
    workload.save(force_insert=True)
    start = max(now, not_before)
    rest = Reservation.objects.create(
        tenant_id=reservation.tenant_id,
        owner_id=reservation.owner_id,
        pool_id=reservation.pool_id,
        profile_id=reservation.profile_id,
        workload=workload,
        ranks=reservation.ranks,
        weight=reservation.weight,
        during=DateTimeTZRange(start, start + dt.timedelta(seconds=seconds), "[)"),
        state=State.QUEUED,
        continues=reservation,
        created_by_id=reservation.created_by_id,
        created_at=now,
    )
    Wait.objects.create(
        reservation=rest, seconds=seconds, not_before=start, since=now,
        give_up_at=start + dt.timedelta(seconds=seconds) + REQUEUE, reason="displaced")  # fmt: skip
    return rest


def _tell(
    reservation: Reservation, rest: Reservation | None, victim: Victim, by: Reservation | None, lost_seconds: int
) -> None:
    ends_at = victim.ends_at or timezone.now()
    record_change(
        actor=None,
        action="reservation.displaced",
        subject=reservation.number,
        tenant_id=reservation.tenant_id,
        before={"end": reservation.during.upper.isoformat()},
        after={
            "end": ends_at.isoformat(), "by": by.number if by else "", "rest": rest.number if rest else "",
            "credited_slice_seconds": lost_seconds * reservation.weight * reservation.ranks,
        },
    )  # fmt: skip
    facts: dict = {"ends_at": victim.ends_at} if victim.ends_at else {}
    if rest is not None:
        facts["rest"] = rest.number
    notify(
        users=[reservation.owner_id], kind=Kind.DISPLACED, reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id, name=reservation.workload.name,
        credited_slice_seconds=lost_seconds * reservation.weight * reservation.ranks, **facts)  # fmt: skip
    events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)
