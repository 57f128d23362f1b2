"""Finds reservations whose place will not do any more and moves them: GPUs that are faulty or gone, drained nodes."""

import datetime as dt

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.inventory.models import GpuState, NodeState
from portal.notices.models import Notice
from portal.reservations.maintenance_closing import Closing, Fate
from portal.reservations.maintenance_locks import under_locks
from portal.reservations.maintenance_notices import tell_effect
from portal.reservations.models import Lease, LeaseState, Maintenance
from portal.reservations.rebinding import lock_nodes
from portal.reservations.replacing import Bound, Shut, bound_on, move_all, propose_all

MOST_ROWS = 500
# A node that is silent may answer again: what starts later stays until it is about to be handed to its node.
NEAR = dt.timedelta(minutes=10)
FAULTY = Q(gpu__state=GpuState.FAULTY) | Q(gpu__present=False)


def replace_from_unusable(now: dt.datetime | None = None) -> int:
    """Move planned leases off GPUs that cannot serve them; the owner of one that has no other place is told, once.

    Returns how many were moved or told, 0 once there is nothing more to do until something changes. Looks without
    locks first, then moves under the pools' locks.
    """
    now = now or timezone.now()
    stuck = [one for one in bound_on(unusable(now)) if not one.started][:MOST_ROWS]
    if not stuck:
        return 0
    places = propose_all(stuck, now, Shut())
    movable = [one for one in stuck if one.reservation.pk in places]
    moved = _move(movable, now) if movable else 0
    return moved + sum(_tell(one) for one in stuck if one.reservation.pk not in places)


def unusable(now: dt.datetime) -> Q:
    """Planned leases that are to be moved. A cordoned node keeps what it has; one in planned maintenance keeps what
    lies outside of it. What a node knows of is moved only where that node itself says that the GPU is no good."""
    emptied = Q(gpu__node__state__in=[NodeState.DRAINING, NodeState.RETIRED])
    emptied |= Q(gpu__node__state=NodeState.MAINTENANCE, gpu__node__by_plan=False)
    near = Q(during__startswith__lte=now + settings.FREEZE_HORIZON + NEAR, gpu__node__silent_since__isnull=False)
    closed = Maintenance.objects.filter(
        Q(node=OuterRef("gpu__node")) | Q(node__isnull=True),
        Q(pool=OuterRef("gpu__pool")) | Q(pool__isnull=True),
        ended_at__isnull=True, cancelled_at__isnull=True, during__overlap=OuterRef("during"))  # fmt: skip
    untold = Q(frozen_at__isnull=True) & (FAULTY | emptied | near | Q(Exists(closed)))
    told = Q(frozen_at__isnull=False, during__startswith__gt=now, gpu__node__silent_since__isnull=True) & FAULTY
    return Q(state=LeaseState.PLANNED, during__endswith__gt=now) & (untold | told)


def _move(movable: list[Bound], now: dt.datetime) -> int:
    pools = {one.reservation.pool_id: one.reservation.pool for one in movable}

    def move() -> int:
        ids = [one.reservation.pk for one in movable]
        stuck = bound_on(unusable(now) & Q(reservation__in=ids), lock=True)
        still = [one for one in stuck if not one.started]
        places = propose_all(still, now, Shut())
        gpus = [lease.gpu_id for one in still for lease in one.leases]
        lock_nodes(gpus + [place.gpu_id for found in places.values() for place in found])
        return len(move_all(still, places, now, because="place out of service"))

    return under_locks([pools[pk] for pk in sorted(pools)], move)


def _tell(one: Bound) -> int:
    """Of a node that drains or is in maintenance the owner has heard already."""
    bad = next((lease for lease in one.leases if _reason(lease)), None)
    if bad is None:
        return 0
    once = f"out of service/{bad.pk}"
    if Notice.objects.filter(once=once, user=one.reservation.owner_id).exists():
        return 0
    gpu = bad.gpu
    closing = Closing(Q(pk=gpu.pk), bad.during, None, str(gpu), _reason(bad), for_good=True)
    with transaction.atomic():
        tell_effect(one.reservation, Fate.STAYS, closing, once=once)
    return 1


def _reason(lease: Lease) -> str:
    """Why its GPU cannot serve it, "" where nothing is wrong with the GPU itself."""
    gpu, node = lease.gpu, lease.gpu.node
    if node.silent_since is not None:
        return str(_("The node is silent."))
    if not gpu.present:
        return str(_("The GPU is no longer reported."))
    return (gpu.fault or str(_("The GPU is faulty."))) if gpu.state == GpuState.FAULTY else ""
