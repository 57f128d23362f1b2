"""Who counts on a node without having a place there that is theirs: what taking it out of the draw does to them."""

import datetime as dt
from dataclasses import dataclass

from django.db.models import Q

from portal.inventory.models import Node, NodeState, Pool
from portal.reservations.models import LIVE, Reservation, State
from portal.reservations.queue_serving import planned_in


@dataclass(frozen=True)
class Counting:
    """``waiting`` were to start there and wait for another place, maybe longer. ``offered`` keep what is held there for
    them until their time to accept is over: a place that was promised is not taken back by a cordon."""

    waiting: tuple[Reservation, ...] = ()
    offered: tuple[Reservation, ...] = ()

    def __len__(self) -> int:
        return len(self.waiting) + len(self.offered)


NOBODY = Counting()


def counting_on(node: Node, state: NodeState, now: dt.datetime) -> Counting:
    """Beside those whose reservations are there, which a drain moves or takes out. Nothing is locked or written."""
    if state == NodeState.READY:
        return NOBODY
    offered = _offered(node, now) if state == NodeState.CORDONED else ()
    return Counting(_planned_on(node, now), offered)


def _planned_on(node: Node, now: dt.datetime) -> tuple[Reservation, ...]:
    gpu_ids = set(node.gpus.values_list("pk", flat=True))
    pools = Pool.objects.filter(gpus__node=node, reservations__state=State.QUEUED).distinct().order_by("pk")
    return tuple(
        plan.reservation
        for pool in pools
        for plan in planned_in(pool, now)
        if gpu_ids.intersection(place.gpu_id for place in plan.placements)
    )


def _offered(node: Node, now: dt.datetime) -> tuple[Reservation, ...]:
    here = Q(leases__gpu__node=node, leases__state__in=LIVE)
    rows = Reservation.objects.filter(here, state=State.QUEUED, hold_expires_at__gt=now)
    return tuple(rows.select_related("tenant", "owner", "profile", "workload").distinct().order_by("pk"))
