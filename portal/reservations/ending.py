"""How leases and reservations come to rest. Call under the pool's lock or with the leases locked.

Leases are locked before their reservation, and both before the node rows.
"""

import datetime as dt
from collections.abc import Iterable

from django.utils import timezone

from agents import group_reasons
from portal.audit.services import record_change
from portal.inventory.services import raise_generations
from portal.notices.models import Kind
from portal.notices.services import settle
from portal.reservations.group_words import stored_detail
from portal.reservations.models import (
    BOUND,
    LIVE,
    MOVED,
    OPEN,
    Approval,
    Decision,
    EndReason,
    Lease,
    LeaseState,
    Reservation,
    State,
)

WITHDRAWABLE = BOUND
# Of one whose node was taken out of service under it.
CLOSED = "closed"
# What an agent says at the end of a lease -> how people read the reservation's end; the gravest of the ranks counts.
GRAVEST_FIRST = [
    ("gpu_lost", EndReason.NODE_LOST),
    ("node_lost", EndReason.NODE_LOST),
    *((check, EndReason.FAILED) for check in sorted(group_reasons.CHECKS)),
    ("start_failed", EndReason.FAILED),
    ("exit_failed", EndReason.FAILED),
    (group_reasons.PEER_LOST, EndReason.NODE_LOST),
    (group_reasons.PEER_FAILED, EndReason.FAILED),
    (CLOSED, EndReason.DISPLACED),
    ("not_started", EndReason.NO_SHOW),
    ("withdrawn", EndReason.RELEASED),
    (group_reasons.PEER_WITHDRAWN, EndReason.RELEASED),
    ("exited", EndReason.COMPLETED),
    ("window_over", EndReason.COMPLETED),
]


def withdraw_leases(leases: list[Lease], reason: str = "withdrawn") -> None:
    """Leases that no agent was told of end here; the others go to stopping and hold their span until it is free.

    ``reason`` MOVED is for leases whose ranks get another place.
    """
    now = timezone.now()
    untold = [lease.pk for lease in leases if lease.frozen_at is None]
    Lease.objects.filter(pk__in=untold, state=LeaseState.PLANNED, frozen_at__isnull=True).update(
        state=LeaseState.ENDED, end_reason=reason, ended_at=now
    )
    told = Lease.objects.filter(
        pk__in=[lease.pk for lease in leases if lease.frozen_at is not None], state__in=WITHDRAWABLE
    )
    nodes = dict(told.values_list("pk", "gpu__node_id"))
    if not nodes:
        return
    if reason == MOVED:
        told.update(end_reason=MOVED)
    generations = raise_generations(set(nodes.values()))
    for lease_id, node_id in nodes.items():
        Lease.objects.filter(pk=lease_id, state__in=WITHDRAWABLE).update(
            state=LeaseState.STOPPING, stopping_at=now, withdrawn_generation=generations[node_id]
        )


def lock_reservations(reservation_ids: Iterable[int]) -> None:
    """In id order, after their leases: of two ranks that come to rest at once, the second sees the first at rest."""
    rows = Reservation.objects.select_for_update(no_key=True).filter(pk__in=reservation_ids).order_by("pk")
    list(rows.values_list("pk", flat=True))


def close_reservation(reservation_id: int) -> None:
    """End the reservation once none of its leases is live; its reason is the gravest of its ranks'. Locks its row.

    What was only held for an answer is refused then: it has no place any more that could be promised.
    """
    lock_reservations([reservation_id])
    leases = list(Lease.objects.filter(reservation_id=reservation_id).exclude(end_reason=MOVED))
    if any(lease.state in LIVE for lease in leases):
        return
    ended_at = max((lease.ended_at for lease in leases if lease.ended_at), default=timezone.now())
    reason, detail = _reason(leases)
    if reason == EndReason.COMPLETED and Reservation.objects.filter(continues=reservation_id).exists():
        reason = EndReason.DISPLACED  # it ran to the end that was left of its window
    before = Reservation.objects.get(pk=reservation_id)
    ended = Reservation.objects.filter(pk=reservation_id, state__in=OPEN).update(
        state=State.ENDED, end_reason=reason, end_detail=detail, ended_at=ended_at
    )
    if ended:
        _record(before, "reservation.ended", {"state": State.ENDED, "reason": reason, "ended_at": ended_at.isoformat()})
    elif before.state == State.REQUESTED and refuse_held(before, Decision.WITHDRAWN, ended_at):
        _record(before, "reservation.refused", {"state": State.REFUSED})


def _record(before: Reservation, action: str, after: dict[str, str]) -> None:
    record_change(
        actor=None, action=action, subject=before.number, tenant_id=before.tenant_id,
        before={"state": before.state}, after=after)  # fmt: skip


def refuse_held(reservation: Reservation, decision: Decision, at: dt.datetime, note: str = "") -> bool:
    """End a held reservation as refused, and its question with it unless others hang on that; False: it was not held.

    Give its leases back first.
    """
    mine = Reservation.objects.filter(pk=reservation.pk, state=State.REQUESTED)
    if not mine.update(state=State.REFUSED, hold_expires_at=None, ended_at=at, end_detail=note[:500]):
        return False
    end_question(reservation, decision)
    return True


def end_question(reservation: Reservation, decision: Decision) -> None:
    """Nobody needs to answer for this reservation any more; the question stays open while others hang on it."""
    if reservation.approval_id is None:
        return
    asked = Reservation.objects.filter(approval=reservation.approval_id)
    if not asked.filter(state=State.REQUESTED).exclude(pk=reservation.pk).exists():
        Approval.objects.filter(pk=reservation.approval_id, decision="").update(
            decision=decision, decided_at=timezone.now()
        )
        settle(kind=Kind.APPROVAL_WANTED, reservation_ids=asked.values_list("pk", flat=True))


def _reason(leases: list[Lease]) -> tuple[str, str]:
    for told, reason in GRAVEST_FIRST:
        for lease in leases:
            if lease.end_reason == told:
                return reason, stored_detail(lease)
    return EndReason.FAILED, ""
