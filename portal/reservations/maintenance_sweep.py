"""Maintenance and draining by the clock: begin, clear, end, give back. Finds by itself what was missed meanwhile."""

import datetime as dt

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.inventory.models import Node, NodeState
from portal.reservations.maintenance import record, tell_everybody
from portal.reservations.maintenance_closing import Closing, closing_of, closing_of_drain, scope_of
from portal.reservations.maintenance_effects import clear
from portal.reservations.maintenance_locks import pools_of, under_locks
from portal.reservations.maintenance_nodes import give_back_nodes, left_alone, running_maintenance, take_nodes
from portal.reservations.models import Maintenance

MOST_ROWS = 200
ANSWERS = Q(node__silent_since__isnull=True)


def run_maintenance(now: dt.datetime | None = None) -> int:
    """One pass; returns how much it changed, 0 once everything is as it should be.

    A node that is silent is left alone, with what it holds: it is taken out when it is heard again while the
    maintenance lasts, and given back when it is heard again after.
    """
    now = now or timezone.now()
    changed = sum(_end(row, now) for row in _open().filter(during__endswith__lte=now)[:MOST_ROWS])
    changed += sum(_begin(row, now) for row in _open().filter(started_at__isnull=True, during__contains=now))
    changed += sum(len(take_nodes(row)) for row in running_maintenance(now))
    changed += sum(_clear(closing_of(row), now) for row in _open().filter(during__startswith__lte=_soon(now)))
    changed += sum(_clear(closing, now) for closing in _drains(now))
    return changed + len(give_back_nodes(now))


def _open() -> QuerySet[Maintenance]:
    rows = Maintenance.objects.filter(ended_at__isnull=True, cancelled_at__isnull=True)
    return rows.select_related("node", "pool", "created_by").order_by("pk")


def _soon(now: dt.datetime) -> dt.datetime:
    return now + settings.DISPLACE_NOTICE


def _begin(row: Maintenance, now: dt.datetime) -> int:
    def begin() -> int:
        waiting = Maintenance.objects.filter(pk=row.pk, started_at__isnull=True, ended_at__isnull=True)
        if not waiting.filter(cancelled_at__isnull=True).update(started_at=now):
            return 0
        taken = take_nodes(row)
        record(None, "maintenance.started", row, after=_nodes(row, taken))
        tell_everybody(row)
        return 1

    return under_locks(pools_of(scope_of(row.node, row.pool)), begin)


def _nodes(row: Maintenance, taken: list[Node]) -> dict:
    """What the audit trail keeps: which nodes are out, and which are left alone and why."""
    return {"nodes": [node.name for node in taken], "left_alone": {node.name: why for node, why in left_alone(row)}}


def _end(row: Maintenance, now: dt.datetime) -> int:
    """Dated at its end, however late the pass; one that nobody began meanwhile is over all the same."""

    def end() -> int:
        lasting = Maintenance.objects.filter(pk=row.pk, ended_at__isnull=True, cancelled_at__isnull=True)
        if not lasting.filter(during__endswith__lte=now).update(ended_at=row.during.upper):
            return 0
        back = give_back_nodes(now)
        record(None, "maintenance.ended", row, after=_nodes(row, back))
        tell_everybody(row)
        return 1

    return under_locks(pools_of(scope_of(row.node, row.pool)), end)


def _drains(now: dt.datetime) -> list[Closing]:
    nodes = Node.objects.filter(state=NodeState.DRAINING, drain_until__lte=_soon(now))
    return [closing_of_drain(node, node.drain_until, now) for node in nodes.order_by("pk")]


def _clear(closing: Closing, now: dt.datetime) -> int:
    """Looks before it locks: mostly there is nothing left to clear."""
    if closing.stops_at is None or now < closing.stops_at - settings.DISPLACE_NOTICE:
        return 0
    answering = closing.on(ANSWERS)
    if not answering.overrun(now).exists():
        return 0
    return under_locks(pools_of(closing.gpus), lambda: clear(answering, now))
