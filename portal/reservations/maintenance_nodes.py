"""The nodes of a maintenance: which are taken out while it lasts, and which come back when none lasts any more."""

import datetime as dt

from django.db.models import Exists, OuterRef, Q, QuerySet

from portal.inventory.models import Gpu, Node, NodeState
from portal.inventory.services import begin_planned, end_planned
from portal.reservations.models import Maintenance


def running_maintenance(now: dt.datetime) -> QuerySet[Maintenance]:
    """Begun, not over, not cancelled; several may run on one node."""
    return Maintenance.objects.filter(
        started_at__isnull=False, ended_at__isnull=True, cancelled_at__isnull=True, during__contains=now
    ).select_related("node", "pool", "created_by")


def nodes_of(row: Maintenance) -> QuerySet[Node]:
    """Nodes that are in it as a whole: one with GPUs in another pool too serves on with these."""
    nodes = Node.objects.exclude(state=NodeState.RETIRED)
    if row.node_id is not None:
        return nodes.filter(pk=row.node_id)
    if row.pool_id is None:
        return nodes
    present = Gpu.objects.filter(node=OuterRef("pk"), present=True, pool__isnull=False)
    elsewhere = present.exclude(pool=row.pool_id)
    return nodes.filter(Exists(present.filter(pool=row.pool_id)), ~Exists(elsewhere))


def take_nodes(row: Maintenance) -> list[Node]:
    """Those of its nodes that are ready and answer; also ones that joined, or were heard again, since it began."""
    return begin_planned(nodes_of(row))


def give_back_nodes(now: dt.datetime) -> list[Node]:
    """Every node that a plan took out and that no running maintenance covers any more."""
    covered = Q(pk__in=[])
    for row in running_maintenance(now):
        covered |= Q(pk__in=nodes_of(row).values("pk"))
    return end_planned(Node.objects.filter(state=NodeState.MAINTENANCE, by_plan=True).exclude(covered))


def left_alone(row: Maintenance) -> list[tuple[Node, str]]:
    """Nodes of the maintenance that it does not touch, each with the state that is why."""
    out = nodes_of(row).filter(Q(silent_since__isnull=False) | ~Q(state__in=[NodeState.READY, NodeState.MAINTENANCE]))
    found = [(node, "silent" if node.silent_since else node.state) for node in out.order_by("name")]
    if row.node is not None and row.node.state == NodeState.RETIRED:
        found.append((row.node, str(NodeState.RETIRED)))
    return found
