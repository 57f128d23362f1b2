"""When GPUs take no leases because of maintenance: the whole span is held then, for placement and for every picture."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

from django.db.models import Q, QuerySet
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu
from portal.reservations.models import Maintenance
from scheduler.placement.geometry import MAINTENANCE, Held


def open_maintenance(around: DateTimeTZRange) -> QuerySet[Maintenance]:
    """Neither over nor cancelled, and within the window."""
    return Maintenance.objects.filter(ended_at__isnull=True, cancelled_at__isnull=True, during__overlap=around)


class Canvas(Protocol):
    """What is looked at of a GPU: its row, or just these columns of it."""

    @property
    def pk(self) -> int: ...
    @property
    def node_id(self) -> int: ...
    @property
    def pool_id(self) -> int | None: ...
    @property
    def index(self) -> int: ...
    @property
    def memory_slices(self) -> int: ...


@dataclass(frozen=True, slots=True)
class GpuColumns:
    """Those columns, read without the rest: a pool may have a thousand GPUs."""

    pk: int
    node_id: int
    pool_id: int | None
    index: int
    memory_slices: int


COLUMNS = tuple(column.name for column in fields(GpuColumns))
Seen = TypeVar("Seen", bound=Canvas)


def closures(gpus: Iterable[Canvas], around: DateTimeTZRange) -> dict[int, list[Held]]:
    """By GPU id; one query. ``gpus`` name their node and pool by id."""
    gpus = list(gpus)
    found: dict[int, list[Held]] = defaultdict(list)
    for gpu, one in _met(gpus, open_maintenance(around)):
        found[gpu.pk].append(closed_by(one, gpu))
    return found


def closed_by(one: Maintenance, gpu: Canvas) -> Held:
    """As placement sees it."""
    since, until = int(one.during.lower.timestamp()), int(one.during.upper.timestamp())
    return Held(0, gpu.memory_slices, since, until, MAINTENANCE)


def drawn_maintenance(gpus: Iterable[Gpu], around: DateTimeTZRange) -> dict[int, list[Maintenance]]:
    """By GPU id, for pictures: that which is over too, as far as it lasted. One query, the first to begin first."""
    rows = Maintenance.objects.filter(cancelled_at__isnull=True, during__overlap=around)
    rows = rows.exclude(ended_at__lte=around.lower).order_by("during", "pk")
    found: dict[int, list[Maintenance]] = defaultdict(list)
    for gpu, one in _met(list(gpus), rows):
        found[gpu.pk].append(one)
    return found


def _met(gpus: list[Seen], rows: QuerySet[Maintenance]) -> Iterator[tuple[Seen, Maintenance]]:
    """Each GPU with each maintenance of its node, of its pool or of everything."""
    concerned = Q(node__in={gpu.node_id for gpu in gpus}) | Q(pool__in={gpu.pool_id for gpu in gpus})
    for one in rows.filter(concerned | Q(node__isnull=True, pool__isnull=True)):
        for gpu in gpus:
            if one.node_id in (None, gpu.node_id) and one.pool_id in (None, gpu.pool_id):
                yield gpu, one
