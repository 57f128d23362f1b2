"""What happens to a borrower that gives way: cut short or taken out, told, not charged for the rest, and requeued."""

import datetime as dt

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal import events
from portal.audit.services import record_change
from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.displacing import Victim
from portal.reservations.ending import withdraw_leases
from portal.reservations.models import LIVE, UNDER_WAY, EndReason, Lease, Reservation, State, Wait
from portal.reservations.rebinding import set_window
from portal.workloads.models import Workload

# So long a displaced rest looks for another place before it is given up.
REQUEUE = dt.timedelta(days=7)


def give_way(victim: Victim, by: Reservation | None, now: dt.datetime) -> Reservation:
    """Free what the victim gives up and queue the rest; returns the queued one. Locks the victim's leases and row."""
    reservation = victim.reservation
    leases = list(Lease.objects.select_for_update(no_key=True).filter(
        reservation=reservation, state__in=LIVE).order_by("pk"))  # fmt: skip
    planned = reservation.during
    if victim.ends_at is None:
        withdraw_leases(leases)
        Reservation.objects.filter(pk=reservation.pk, state__in=UNDER_WAY).update(
            state=State.ENDED, end_reason=EndReason.DISPLACED, ended_at=now, hold_expires_at=None
        )
        lost_seconds = reservation.planned_seconds
    else:
        set_window(reservation, leases, DateTimeTZRange(planned.lower, victim.ends_at, "[)"))
        lost_seconds = int((planned.upper - victim.ends_at).total_seconds())
    rest = requeue(reservation, lost_seconds, not_before=victim.ends_at or planned.lower, now=now)
    _tell(reservation, rest, victim, by, lost_seconds)
    return rest


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
    reservation: Reservation, rest: Reservation, victim: Victim, by: Reservation | None, lost_seconds: int
) -> None:
    ends_at = victim.ends_at or timezone.now()
    record_change(
        actor=None,
        action="reservation.displaced",
        subject=reservation.number,
        tenant_id=reservation.tenant_id,
        before={"end": reservation.during.upper.isoformat()},
        after={"end": ends_at.isoformat(), "by": by.number if by else "", "rest": rest.number},
    )
    notify(
        users=[reservation.owner_id], kind=Kind.DISPLACED, reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id, name=reservation.workload.name, ends_at=ends_at,
        credited_slice_seconds=lost_seconds * reservation.weight * reservation.ranks, rest=rest.number)  # fmt: skip
    events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)
