"""When GPUs take no leases because of maintenance: the whole span is held then, for placement and for every picture."""

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import Q, QuerySet
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu
from portal.reservations.models import Maintenance
from scheduler.placement.geometry import Held

MAINTENANCE = "maintenance"


def open_maintenance(around: DateTimeTZRange) -> QuerySet[Maintenance]:
    """Neither over nor cancelled, and within the window."""
    return Maintenance.objects.filter(ended_at__isnull=True, cancelled_at__isnull=True, during__overlap=around)


def closures(gpus: Iterable[Gpu], around: DateTimeTZRange) -> dict[int, list[Held]]:
    """By GPU id; one query. ``gpus`` name their node and pool by id."""
    gpus = list(gpus)
    concerned = Q(node__in={gpu.node_id for gpu in gpus}) | Q(pool__in={gpu.pool_id for gpu in gpus})
    everything = Q(node__isnull=True, pool__isnull=True)
    found: dict[int, list[Held]] = defaultdict(list)
    for one in open_maintenance(around).filter(concerned | everything):
        since, until = int(one.during.lower.timestamp()), int(one.during.upper.timestamp())
        for gpu in gpus:
            if one.node_id in (None, gpu.node_id) and one.pool_id in (None, gpu.pool_id):
                found[gpu.pk].append(Held(0, gpu.memory_slices, since, until, MAINTENANCE))
    return found
