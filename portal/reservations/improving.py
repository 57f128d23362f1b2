"""The plan of a pool is made better in the background: what no node knows of goes where it would go if it came now.

A round holds the pool's lock for a moment, and bookings come in between.
"""

import time

from django.db import transaction
from django.utils import timezone

from portal.inventory.models import Pool
from portal.reservations.booking import lock_pool
from portal.reservations.models import Lease, LeaseState
from portal.reservations.pool_calendar import looking_at
from portal.reservations.rearranging import rearrange
from portal.reservations.rebinding import touch_pool

ROUND_SECONDS = 0.2
# Of CPU time, for one pool in one sweep.
POOL_SECONDS = 2.0

# By pool: the revision at which all that is planned was looked at and nothing was better elsewhere.
_settled: dict[int, int] = {}


def improve_plans() -> int:
    """Returns how many leases were moved. A pool that is settled is left alone until something changes in it."""
    planned = Lease.objects.filter(state=LeaseState.PLANNED, frozen_at__isnull=True).values("reservation__pool_id")
    pools = Pool.objects.filter(pk__in=planned.distinct()).order_by("pk").values_list("pk", "revision")
    return sum(_improve(pool_id) for pool_id, revision in pools if _settled.get(pool_id) != revision)


def _improve(pool_id: int) -> int:
    moved, until = 0, time.process_time() + POOL_SECONDS
    while time.process_time() < until:
        moved_now, looked_at_all = _round(pool_id)
        moved += moved_now
        if looked_at_all:
            break
    return moved


@transaction.atomic
def _round(pool_id: int) -> tuple[int, bool]:
    pool = lock_pool(pool_id)
    with looking_at(pool, timezone.now()) as picture:
        began = time.monotonic()
        moves = picture.improve(ROUND_SECONDS)
        looked_at_all = time.monotonic() - began < ROUND_SECONDS
    if moves:
        rearrange(pool, moves, because="plan")
        touch_pool(pool_id)
    elif looked_at_all:
        _settled[pool_id] = pool.revision
    return len(moves), looked_at_all
