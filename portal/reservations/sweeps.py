"""What finds whatever an event missed. Each sweep is bounded and safe to run twice."""

import datetime as dt

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from portal import events
from portal.audit.services import record_change
from portal.inventory.models import Node, NodeState
from portal.inventory.services import raise_generations
from portal.reservations.booking import lock_pool
from portal.reservations.ending import close_reservation, lock_reservations, withdraw_leases
from portal.reservations.models import LIVE, OPEN, ChangeMark, IdempotencyKey, Lease, LeaseState, Reservation, State
from portal.reservations.rebinding import freeze_horizon

MOST_ROWS = 200
# So long after its end a lease is left to its agent's own word.
OVER_AFTER = dt.timedelta(seconds=15)


def freeze_due(now: dt.datetime | None = None) -> int:
    """Freeze planned leases whose start is within the horizon and hand them to their agents; returns how many.

    One whose rank was moved waits until its former place is free: a node that is cut off may still start it there.
    """
    now = now or timezone.now()
    former = Lease.objects.filter(reservation=OuterRef("reservation"), rank=OuterRef("rank"), state=LeaseState.STOPPING)
    soon = Q(during__startswith__lte=now + freeze_horizon(True)) | Q(
        during__startswith__lte=now + freeze_horizon(False), reservation__borrowed=False
    )
    due = Lease.objects.filter(
        soon, state=LeaseState.PLANNED, frozen_at__isnull=True, reservation__state__in=OPEN
    ).exclude(Exists(former))
    pools = due.order_by("during").values_list("reservation__pool_id", flat=True)[:MOST_ROWS]
    return sum(_freeze_pool(pool_id, due, now) for pool_id in sorted(set(pools)))


@transaction.atomic
def _freeze_pool(pool_id: int, due, now: dt.datetime) -> int:
    lock_pool(pool_id)
    rows = due.filter(reservation__pool_id=pool_id).order_by("pk").values_list("pk", "gpu__node_id")[:MOST_ROWS]
    nodes = dict(rows)
    frozen = Lease.objects.filter(pk__in=nodes, state=LeaseState.PLANNED, frozen_at__isnull=True).update(frozen_at=now)
    raise_generations(set(nodes.values()))
    return frozen


def end_overdue(now: dt.datetime | None = None) -> int:
    """Withdraw leases that are past a deadline: the window's end, a start that never came, a stop that never ended.

    Returns how many. A silent node's slices stay its own: silence is not freedom.
    """
    now = now or timezone.now()
    late = now - settings.STARTING_DEADLINE
    over = Q(during__endswith__lte=now - OVER_AFTER)
    not_started = Q(
        state__in=[LeaseState.PLANNED, LeaseState.STARTING], during__startswith__lte=late, frozen_at__lte=late
    )
    rows = (
        Lease.objects.filter(state__in=[LeaseState.PLANNED, LeaseState.STARTING, LeaseState.ACTIVE])
        .filter(over | (not_started & Q(gpu__node__silent_since__isnull=True)))
        .order_by("pk")
        .values_list("reservation__pool_id", "pk")[:MOST_ROWS]
    )
    by_pool: dict[int, list[int]] = {}
    for pool_id, lease_id in rows:
        by_pool.setdefault(pool_id, []).append(lease_id)
    for pool_id, lease_ids in sorted(by_pool.items()):
        _withdraw(pool_id, lease_ids, now)
    return sum(map(len, by_pool.values())) + _recheck_stopping(now) + _close_left_over(now)


def _close_left_over(now: dt.datetime) -> int:
    """Reservations past their window of which no lease is live any more: something brought those to rest unseen."""
    live = Lease.objects.filter(reservation=OuterRef("pk"), state__in=LIVE)
    over = Reservation.objects.filter(state__in=[*OPEN, State.REQUESTED], during__endswith__lte=now - OVER_AFTER)
    left = over.exclude(Exists(live)).order_by("pk").values_list("pk", flat=True)[:MOST_ROWS]
    for reservation_id in left:
        with transaction.atomic():
            close_reservation(reservation_id)
    return len(left)


@transaction.atomic
def _recheck_stopping(now: dt.datetime) -> int:
    """An agent that said *stopping* and lost its journal never says *freed*: from now on its reports decide.

    What is still on the device then keeps its span, as after any withdrawal.
    """
    stuck = Lease.objects.filter(
        state=LeaseState.STOPPING, withdrawn_generation__isnull=True, stopping_at__lt=now - settings.STARTING_DEADLINE
    )
    rows = stuck.select_for_update(no_key=True, of=("self",)).order_by("pk").select_related("gpu")
    nodes = {lease.pk: lease.gpu.node_id for lease in rows[:MOST_ROWS]}
    for node_id, generation in raise_generations(set(nodes.values())).items():
        mine = [lease_id for lease_id, holder in nodes.items() if holder == node_id]
        Lease.objects.filter(pk__in=mine, state=LeaseState.STOPPING).update(withdrawn_generation=generation)
    return len(nodes)


@transaction.atomic
def _withdraw(pool_id: int, lease_ids: list[int], now: dt.datetime) -> None:
    lock_pool(pool_id)
    leases = list(Lease.objects.select_for_update(no_key=True).filter(pk__in=lease_ids).order_by("pk"))
    lock_reservations({lease.reservation_id for lease in leases})
    for lease in leases:
        reason = "not_started" if lease.active_at is None else "window_over"
        Lease.objects.filter(pk=lease.pk, end_reason="").update(end_reason=reason)
    withdraw_leases(leases)
    Lease.objects.filter(pk__in=lease_ids, state=LeaseState.ENDED, active_at__isnull=True).update(
        end_reason="not_started"
    )
    for reservation in Reservation.objects.filter(leases__in=leases, state__in=[*OPEN, State.REQUESTED]).distinct():
        close_reservation(reservation.pk)
        events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)


def nodes_behind() -> list[int]:
    """Nodes that answer but have not observed their generation: their document is to be pushed again."""
    behind = Node.objects.filter(observed_generation__lt=F("generation"), silent_since__isnull=True)
    return list(behind.exclude(state=NodeState.RETIRED).order_by("pk").values_list("pk", flat=True)[:MOST_ROWS])


def mark_silent_nodes(now: dt.datetime | None = None) -> int:
    """Nodes not heard of for too long, by our own clock; their slices stay theirs until they report them free."""
    now = now or timezone.now()
    lost = Node.objects.filter(silent_since__isnull=True, last_seen_at__lt=now - settings.NODE_SILENT_AFTER)
    count = 0
    for node in lost.exclude(state=NodeState.RETIRED).order_by("pk")[:MOST_ROWS]:
        if _mark_silent(node, now):
            count += 1
    return count


@transaction.atomic
def _mark_silent(node: Node, now: dt.datetime) -> bool:
    unheard = Node.objects.filter(pk=node.pk, silent_since__isnull=True, last_seen_at=node.last_seen_at)
    if not unheard.update(silent_since=now):
        return False
    record_change(actor=None, action="node.silent", subject=node.name, after={"last_seen_at": str(node.last_seen_at)})
    events.tell_everybody_on_commit("node.changed", node=node.pk)
    return True


def forget_keys(now: dt.datetime | None = None) -> int:
    """Idempotency keys are kept for a day."""
    old = (now or timezone.now()) - dt.timedelta(days=1)
    return IdempotencyKey.objects.filter(created_at__lt=old).delete()[0]


def forget_marks(now: dt.datetime | None = None) -> int:
    """No picture of a pool is as old as a day."""
    old = (now or timezone.now()) - dt.timedelta(days=1)
    return ChangeMark.objects.filter(marked_at__lt=old).delete()[0]
