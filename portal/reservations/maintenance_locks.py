"""The locks under which GPUs go out of service and come back: pools by id first, node rows last."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import transaction
from django.db.models import Q

from portal.inventory.models import Gpu, Pool
from portal.reservations.booking import lock_pool, retried
from portal.reservations.models import BOUND, Lease

Answer = TypeVar("Answer")


def pools_of(gpus: Q) -> list[Pool]:
    """The pools that GPUs are in or that their leases were booked in, by id."""
    found = Gpu.objects.filter(gpus)
    booked = Lease.objects.filter(gpu__in=found.values("pk"), state__in=BOUND).values("reservation__pool")
    concerned = Q(pk__in=found.filter(pool__isnull=False).values("pool")) | Q(pk__in=booked)
    return list(Pool.objects.filter(concerned).order_by("pk"))


def under_locks(pools: Iterable[Pool], work: Callable[[], Answer]) -> Answer:
    """``work`` in a transaction that has locked the pools by id; deadlocks are tried again, see ``retried``."""
    pools = list(pools)

    def locked() -> Answer:
        for pool in pools:
            lock_pool(pool.pk)
        return work()

    if not pools:
        with transaction.atomic():
            return work()
    return retried(pools[0], locked)
