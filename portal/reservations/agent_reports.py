"""Taking in what an agent reports: guarded changes of lease states, ledger rows, and nothing that does not fit.

The same event told twice is one row. Locks the lease concerned, then its reservation, then the node row, never a pool.
"""

import datetime as dt
import logging

import msgspec
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Greatest, Least

from agents.protocol import LeaseEvent, Report, event_id
from portal import events
from portal.inventory.hearing import end_silence
from portal.inventory.models import Node
from portal.inventory.services import raise_generations
from portal.reservations.ending import close_reservation
from portal.reservations.group_endings import begin_again_where_free, heed_loss, lock_group
from portal.reservations.lease_events import APPLY, Misfit, end_lease
from portal.reservations.models import Lease, LeaseState, QuarantinedEvent
from portal.reservations.queue_bell import ring_queue

log = logging.getLogger(__name__)

ENDINGS = ("stopping", "freed", "failed")
UNSEEN_AFTER = dt.timedelta(seconds=120)


def apply_report(node_id: int, report: Report, received_at: dt.datetime) -> list[str]:
    """Apply each event once; returns the ids the agent may forget, those put in quarantine too."""
    for event in report.events:
        _apply_event(node_id, event, received_at)
    end_silence(node_id)
    Node.objects.filter(pk=node_id).update(
        last_seen_at=received_at,
        observed_generation=Least(Greatest(F("observed_generation"), report.observed_generation), F("generation")),
    )
    _end_what_is_gone(node_id, report, received_at)
    return [event.id for event in report.events]


@transaction.atomic
def _apply_event(node_id: int, event: LeaseEvent, received_at: dt.datetime) -> None:
    if event.kind in ENDINGS:
        lock_group(event.lease_id)
    lease = _locked_leases().filter(pk=event.lease_id, gpu__node_id=node_id).first()
    try:
        if lease is None:
            raise Misfit("this node holds no such lease")
        if event.id not in {event_id(lease.pk, event.kind, attempt) for attempt in range(lease.attempt + 1)}:
            raise Misfit("the id does not belong to this event")
        if event.kind not in APPLY:
            raise Misfit(f"unknown kind {event.kind}")
        changed = APPLY[event.kind](lease, event, received_at)
    except Misfit as why:
        _quarantine(node_id, event, str(why))
        return
    if changed:
        heed_loss(lease, event, received_at)
        _tell(lease, received_at)


def _locked_leases() -> QuerySet[Lease]:
    """Leases with all that ending one reads; only their own rows are locked."""
    rows = Lease.objects.select_for_update(no_key=True, of=("self",))
    return rows.select_related("reservation__tenant", "reservation__profile", "gpu")


def _tell(lease: Lease, now: dt.datetime) -> None:
    begin_again_where_free(lease, now)
    close_reservation(lease.reservation_id)
    lease.refresh_from_db(fields=["state"])
    if lease.state in (LeaseState.ENDED, LeaseState.FAILED):
        raise_generations({lease.gpu.node_id})
        ring_queue(lease.reservation.pool_id)
    reservation = lease.reservation
    events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)


def _quarantine(node_id: int, event: LeaseEvent, why: str) -> None:
    log.warning("node %s event %s of lease %s put in quarantine: %s", node_id, event.kind, event.lease_id, why)
    QuarantinedEvent.objects.get_or_create(
        event_id=event.id, defaults={"node_id": node_id, "body": msgspec.to_builtins(event), "why": why[:255]}
    )


def _end_what_is_gone(node_id: int, report: Report, received_at: dt.datetime) -> None:
    """A withdrawn lease is free once the agent has observed a generation without it and shows nothing of it.

    One that never started is free at once; of one that did, the agent's own word is awaited first.
    """
    withdrawn = Lease.objects.filter(
        gpu__node_id=node_id,
        state=LeaseState.STOPPING,
        withdrawn_generation__isnull=False,
        withdrawn_generation__lte=report.observed_generation,
    )
    if not withdrawn.exists():
        return
    shown = {slice.lease_id for slice in report.present}
    # What shows another lease's number is that one's, here before or after this window.
    unowned = [(one.gpu_uuid, one.start, one.start + one.size) for one in report.present if one.lease_id is None]
    for lease in withdrawn.select_related("gpu"):
        waited = lease.starting_at is None or received_at - (lease.stopping_at or lease.starting_at) > UNSEEN_AFTER
        if waited and lease.pk not in shown and not _overlaps(lease, unowned):
            _end_unseen(lease.pk, received_at)


def _overlaps(lease: Lease, held: list[tuple[str, int, int]]) -> bool:
    return any(
        gpu_uuid == lease.gpu.uuid and start < lease.span.upper and lease.span.lower < end
        for gpu_uuid, start, end in held
    )


@transaction.atomic
def _end_unseen(lease_id: int, received_at: dt.datetime) -> None:
    lock_group(lease_id)
    lease = _locked_leases().get(pk=lease_id)
    reason = "withdrawn" if lease.end_reason == "" else lease.end_reason
    if lease.state == LeaseState.STOPPING and end_lease(lease, LeaseState.ENDED, reason, received_at):
        _tell(lease, received_at)
