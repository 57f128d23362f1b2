"""The GPUs of a pool, their shapes, and when they take no leases, as a picture of the pool keeps them."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, Pool
from portal.reservations.closures import COLUMNS, GpuColumns, closures
from portal.reservations.selectors import bookable_gpus, profiles_of, shape_of
from scheduler.placement.geometry import MAINTENANCE, Held, Shape
from scheduler.placement.topology import Topology, distance_of

# Longer than any window reaches: so long a GPU that takes no leases is held.
FOREVER_SECONDS = 100 * 366 * 86400
# What is over may still be asked about by a window that began a moment ago.
LOOKED_BACK = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Fleet:
    """``closed`` says of each GPU when all of it is held, because it takes no leases or is in maintenance."""

    gpus: tuple[GpuColumns, ...]
    shapes: tuple[Shape, ...]
    closed: tuple[tuple[int, Held], ...]
    topology: Topology

    @property
    def slices(self) -> int:
        return max((gpu.memory_slices for gpu in self.gpus), default=0)

    @property
    def places(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((gpu.pk, gpu.node_id, gpu.index) for gpu in self.gpus)


def read_fleet(pool: Pool, now: dt.datetime) -> Fleet:
    """Six queries: a change of the fleet is rare."""
    gpus = tuple(GpuColumns(*row) for row in Gpu.objects.filter(pool=pool).values_list(*COLUMNS))
    bookable = set(bookable_gpus(pool).values_list("pk", flat=True))
    fresh = Pool.objects.get(pk=pool.pk)  # its model is decided by the first GPU, perhaps after the caller's row
    shapes = tuple(map(shape_of, profiles_of(fresh)))
    return Fleet(gpus, shapes, tuple(_closed(gpus, bookable, now)), topology_of(pool))


def topology_of(pool: Pool) -> Topology:
    """Racks of its nodes and ways between its GPUs, as far as anybody said."""
    rows = list(Gpu.objects.filter(pool=pool).values_list("pk", "uuid", "links", "node_id", "node__rack"))
    by_uuid = {uuid: pk for pk, uuid, *_rest in rows}
    racks = {node: rack for *_gpu, node, rack in rows if rack}
    ways = {
        pk: {by_uuid[other]: distance_of(word) for other, word in links.items() if other in by_uuid}
        for pk, _uuid, links, *_node in rows
        if links
    }
    return Topology(racks, ways)


def _closed(gpus: tuple[GpuColumns, ...], bookable: set[int], now: dt.datetime) -> Iterator[tuple[int, Held]]:
    until = int(now.timestamp()) + FOREVER_SECONDS
    tallest = max((gpu.memory_slices for gpu in gpus), default=0)
    for gpu in gpus:
        if gpu.pk not in bookable:
            yield gpu.pk, Held(0, tallest, 0, until, MAINTENANCE)
        elif gpu.memory_slices < tallest:
            yield gpu.pk, Held(gpu.memory_slices, tallest, 0, until, MAINTENANCE)
    for gpu_id, spans in closures(gpus, DateTimeTZRange(now - LOOKED_BACK, None, "[)")).items():
        for held in spans:
            yield gpu_id, held
