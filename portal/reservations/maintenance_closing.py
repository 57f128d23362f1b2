"""What goes out of service and when, be it for maintenance or because a node is drained; and what becomes of who is
there."""

import datetime as dt
from dataclasses import dataclass, replace
from enum import StrEnum

from django.db.models import Q, QuerySet
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, Node, Pool
from portal.reservations.models import BOUND, Lease, Maintenance
from portal.reservations.replacing import Shut

# As long as a drained node is out, as far as anybody knows.
FOR_GOOD = dt.timedelta(days=3660)


class Fate(StrEnum):
    """Of a reservation whose GPU goes out of service.

    moved: all its ranks sit elsewhere, its window stays. stays: it has no place elsewhere, and stays booked until the
    GPU goes out. cut: it ends earlier. displaced: it is taken out and waits in the queue. lapses: it was held or only
    offered. runs: it runs to its end.
    """

    MOVED = "moved"
    STAYS = "stays"
    CUT = "cut"
    DISPLACED = "displaced"
    LAPSES = "lapses"
    RUNS = "runs"


@dataclass(frozen=True)
class Closing:
    """Which GPUs go out of service, when, and why. ``stops_at``: nothing runs on them from then on, None: what runs
    there runs to its end. ``what`` is the name of a node, a pool or a GPU, "" for everything."""

    gpus: Q
    during: DateTimeTZRange
    stops_at: dt.datetime | None
    what: str
    reason: str
    maintenance_id: int | None = None
    for_good: bool = False

    def gpu_ids(self) -> frozenset[int]:
        return frozenset(Gpu.objects.filter(self.gpus).values_list("pk", flat=True))

    def shut(self) -> Shut:
        return Shut(self.gpu_ids(), None if self.for_good else self.during)

    @property
    def leases(self) -> Q:
        return Q(gpu__in=Gpu.objects.filter(self.gpus).values("pk"), during__overlap=self.during)

    def on(self, gpus: Q) -> "Closing":
        """Only for those of its GPUs."""
        return replace(self, gpus=self.gpus & gpus)

    def overrun(self, now: dt.datetime) -> QuerySet[Lease]:
        """Leases that would be there after ``stops_at``; before it those of which a node knows, the others may move."""
        rows = Lease.objects.filter(self.leases, state__in=BOUND, during__endswith__gt=self.stops_at)
        if self.stops_at is not None and now < self.stops_at:
            rows = rows.filter(frozen_at__isnull=False, during__startswith__lt=self.stops_at)
        return rows


def scope_of(node: Node | None, pool: Pool | None) -> Q:
    """The GPUs of a node, of a pool, or all."""
    if node is not None:
        return Q(node=node)
    return Q() if pool is None else Q(pool=pool)


def closing_of(one: Maintenance) -> Closing:
    """``node`` and ``pool`` are read: select them with the row."""
    what = one.node or one.pool
    return Closing(
        scope_of(one.node, one.pool), one.during, one.stops_at or one.during.lower, str(what) if what else "",
        one.reason, one.pk)  # fmt: skip


def closing_of_drain(node: Node, until: dt.datetime | None, now: dt.datetime) -> Closing:
    """A node that is being emptied; with ``until`` nothing runs there from then on."""
    during = DateTimeTZRange(now, now + FOR_GOOD, "[)")
    return Closing(Q(node=node), during, until, str(node), reason="", for_good=True)
