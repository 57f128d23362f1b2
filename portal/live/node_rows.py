"""The rows that agents' sockets read and write besides inventory and reports."""

import datetime as dt
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext_noop

from agents.protocol import Hello
from portal import events
from portal.inventory.hearing import record_degraded, record_heard_again
from portal.inventory.models import Gpu, Node, NodeState
from portal.inventory.reported import record_hello
from portal.inventory.services import raise_generations
from portal.reservations.group_facts import nodes_beside
from portal.reservations.models import LIVE, Lease

PROBE_LATE_SECONDS = 30
PROBE_LATE = gettext_noop("The GPU driver does not answer.")  # stored in English, translated where it is shown


@dataclass(frozen=True)
class Belongings:
    """What a node may speak of: its GPUs by UUID and the leases that are bound to it now."""

    gpus: dict[str, int] = field(default_factory=dict)
    leases: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Standing:
    """What decides whether a connection may stay, and whether its desired document is the newest."""

    generation: int
    credential_hash: str


@dataclass(frozen=True)
class Heard:
    """When a node was heard last, by our clock, and how old its last good look at the driver is."""

    at: dt.datetime
    probe_age_seconds: float | None = None


def take_hello(node: Node, hello: Hello, received_at: dt.datetime) -> None:
    """What a node says of itself; who was told how to reach it before is told anew."""
    before = (node.cluster_address, node.driver_version)
    node = record_hello(node, hello, received_at)
    if (node.cluster_address, node.driver_version) != before:
        with transaction.atomic():  # of its own: this node's row is free again, and no two hellos wait for each other
            raise_generations(nodes_beside(node.pk))


def belongings_of(node_id: int) -> Belongings:
    gpus = dict(Gpu.objects.filter(node_id=node_id).values_list("uuid", "pk"))
    leases = Lease.objects.filter(gpu__node_id=node_id, state__in=LIVE, frozen_at__isnull=False)
    return Belongings(gpus, frozenset(leases.values_list("pk", flat=True)))


def standings_of(node_ids: list[int]) -> dict[int, Standing]:
    """Of these nodes, those that still may connect."""
    rows = Node.objects.filter(pk__in=node_ids).exclude(Q(state=NodeState.RETIRED) | Q(credential_hash=""))
    standings = rows.values_list("pk", "generation", "credential_hash")
    return {pk: Standing(generation, credential_hash) for pk, generation, credential_hash in standings}


@transaction.atomic
def record_heard(heard: dict[int, Heard]) -> None:
    """Write down when each node was heard. Rows that somebody else holds are left for the next time."""
    rows = Node.objects.select_for_update(skip_locked=True, no_key=True).filter(pk__in=heard).order_by("pk")
    changed = []
    for node in rows:
        before = (node.silent_since, node.degraded_reason)
        node.last_seen_at, node.silent_since = heard[node.pk].at, None
        _judge_probe(node, heard[node.pk].probe_age_seconds)
        if before != (node.silent_since, node.degraded_reason):
            _record(node, *before)
            events.tell_everybody_on_commit("node.changed", node=node.pk)
        changed.append(node)
    if changed:
        Node.objects.bulk_update(changed, ["last_seen_at", "silent_since", "degraded_reason"])


def _record(node: Node, silent_since: dt.datetime | None, degraded_reason: str) -> None:
    if silent_since is not None:
        record_heard_again(node)
    if degraded_reason != node.degraded_reason:
        record_degraded(node, degraded_reason, node.degraded_reason)


def _judge_probe(node: Node, age_seconds: float | None) -> None:
    """A driver that hangs makes a node degraded while its heartbeats go on; other reasons are not ours to change."""
    if age_seconds is None:
        return
    if age_seconds > PROBE_LATE_SECONDS and not node.degraded_reason:
        node.degraded_reason = PROBE_LATE
    elif age_seconds <= PROBE_LATE_SECONDS and node.degraded_reason == PROBE_LATE:
        node.degraded_reason = ""
