"""One function per kind of event: what it changes in a lease. Each returns whether anything changed."""

import datetime as dt
from collections.abc import Callable

from agents.protocol import LeaseEvent
from portal.audit.services import record_change
from portal.ledger.models import Kind
from portal.ledger.services import record_entry
from portal.reservations.ending import MOVED
from portal.reservations.models import LIVE, Lease, LeaseLog, LeaseState, Reservation, State

CLOCK_SLACK = dt.timedelta(seconds=5)


class Misfit(Exception):
    """The event cannot be true of this lease."""


def started(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> bool:
    at = _within_window(lease, event, received_at)
    Lease.objects.filter(pk=lease.pk, starting_at__isnull=True).update(starting_at=at)
    return bool(Lease.objects.filter(pk=lease.pk, state=LeaseState.PLANNED).update(state=LeaseState.STARTING))


def active(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> bool:
    at = _within_window(lease, event, received_at)
    if lease.active_at is not None or lease.state not in LIVE:
        return False
    Lease.objects.filter(pk=lease.pk).update(active_at=at, mig_uuid=event.mig_uuid)
    if lease.starting_at is None:
        Lease.objects.filter(pk=lease.pk).update(starting_at=at)
    Lease.objects.filter(pk=lease.pk, state__in=[LeaseState.PLANNED, LeaseState.STARTING]).update(
        state=LeaseState.ACTIVE
    )
    record_entry(kind=Kind.OPENED, at=at, source=f"agent/{event.id}", **_facts(lease))
    if lease.end_reason != MOVED:  # its agent had not yet heard that the rank runs elsewhere, at another time
        _run_reservation(lease.reservation, at)
    return True


def _run_reservation(reservation: Reservation, at: dt.datetime) -> None:
    """The first of its ranks makes it run."""
    waiting = Reservation.objects.filter(pk=reservation.pk, state=State.CONFIRMED)
    if waiting.update(state=State.RUNNING, running_at=at):
        record_change(
            actor=None, action="reservation.running", subject=reservation.number, tenant_id=reservation.tenant_id,
            before={"state": State.CONFIRMED}, after={"state": State.RUNNING, "running_at": at.isoformat()},
        )  # fmt: skip


def stopping(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> bool:
    at = _not_before_start(lease, event, received_at)
    early = [LeaseState.PLANNED, LeaseState.STARTING, LeaseState.ACTIVE]
    return bool(Lease.objects.filter(pk=lease.pk, state__in=early).update(state=LeaseState.STOPPING, stopping_at=at))


def freed(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> bool:
    reason = event.reason or "window_over"
    if reason == "window_over" and lease.active_at is None:
        reason = "not_started"
    if reason == "exited" and event.exit_code:
        reason = "exit_failed"
    return _end(lease, event, LeaseState.ENDED, reason, received_at)


def failed(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> bool:
    return _end(lease, event, LeaseState.FAILED, event.reason or "start_failed", received_at)


APPLY: dict[str, Callable[[Lease, LeaseEvent, dt.datetime], bool]] = {
    "starting": started,
    "active": active,
    "stopping": stopping,
    "freed": freed,
    "failed": failed,
}


def _end(lease: Lease, event: LeaseEvent, state: LeaseState, reason: str, received_at: dt.datetime) -> bool:
    at = _not_before_start(lease, event, received_at)
    if not end_lease(lease, state, lease.end_reason or reason, at):
        return False
    detail = event.detail.replace("\0", "")[:500]
    Lease.objects.filter(pk=lease.pk).update(exit_code=event.exit_code, detail=detail)
    if event.log_tail:
        LeaseLog.objects.update_or_create(lease=lease, defaults={"tail": event.log_tail.replace("\0", "")})
    return True


def end_lease(lease: Lease, state: LeaseState, reason: str, at: dt.datetime) -> bool:
    """Bring a live lease to rest and close what the ledger has open for it, never later than the window's end."""
    moved = Lease.objects.filter(pk=lease.pk, state__in=LIVE).update(state=state, end_reason=reason, ended_at=at)
    if moved and lease.active_at is not None:
        closed_at = max(lease.active_at, min(at, lease.during.upper))
        record_entry(kind=Kind.CLOSED, at=closed_at, source=f"end/{reason}", **_facts(lease))
    return bool(moved)


def _facts(lease: Lease) -> dict:
    reservation = lease.reservation
    return {
        "lease_id": lease.pk,
        "reservation_id": reservation.pk,
        "tenant_id": reservation.tenant_id,
        "user_id": reservation.owner_id,
        "pool_id": reservation.pool_id,
        "profile_name": reservation.profile.name,
        "weight": reservation.weight,
        "slices": lease.span.upper - lease.span.lower,
    }


def _at(event: LeaseEvent, received_at: dt.datetime) -> dt.datetime:
    """The agent's time, never in our future: its clock is corrected by ours and may be off a little."""
    return min(dt.datetime.fromtimestamp(event.at, dt.UTC), received_at)


def _within_window(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> dt.datetime:
    at = _not_before_start(lease, event, received_at)
    if at >= lease.during.upper:
        raise Misfit(f"at {at:%Y-%m-%d %H:%M:%S} it was over")
    return at


def _not_before_start(lease: Lease, event: LeaseEvent, received_at: dt.datetime) -> dt.datetime:
    at = _at(event, received_at)
    withdrawn = lease.state == LeaseState.STOPPING and event.kind in ("freed", "stopping")
    if at < lease.during.lower - CLOCK_SLACK and not withdrawn:
        raise Misfit(f"at {at:%Y-%m-%d %H:%M:%S} it had not begun")
    return at if withdrawn else max(at, lease.during.lower)
