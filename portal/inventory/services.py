"""Pools and nodes as admins change them."""

import datetime as dt
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils.translation import gettext as _

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Node, NodeState, Pool

LIMITS = ("shortest_window_seconds", "longest_window_seconds", "book_ahead_seconds")


def raise_generations(node_ids: set[int]) -> dict[int, int]:
    """What these nodes shall do has changed: raise each one's generation and ring its bell after commit.

    Call last in a transaction: the node rows are locked, in id order, until it ends. Returns the new generations.
    """
    nodes = list(Node.objects.select_for_update(no_key=True).filter(pk__in=node_ids).order_by("pk"))
    Node.objects.filter(pk__in=node_ids).update(generation=F("generation") + 1)
    events.push_desired_on_commit(node_ids)
    return {node.pk: node.generation + 1 for node in nodes}


@transaction.atomic
def create_pool(*, actor: User | None, name: str, **limits: int) -> Pool:
    """A pool without GPUs; the first GPU that joins decides its model and MIG mode."""
    if not name.strip():
        raise InventoryRefused(_("A pool needs a name."))
    pool = Pool(name=name)
    _set_limits(pool, limits)
    try:
        with transaction.atomic():
            pool.save()
    except IntegrityError as error:
        raise InventoryRefused(_("There is a pool called %(name)s already.") % {"name": name}) from error
    record_change(actor=actor, action="pool.created", subject=name, after=limits)
    return pool


@transaction.atomic
def change_pool(*, actor: User, pool: Pool, **limits: int) -> Pool:
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    before = {name: getattr(pool, name) for name in limits}
    _set_limits(pool, limits)
    pool.save(update_fields=list(limits))
    record_change(actor=actor, action="pool.changed", subject=pool.name, before=before, after=limits)
    return pool


def _set_limits(pool: Pool, limits: dict[str, int]) -> None:
    for name, value in limits.items():
        if name not in LIMITS:
            raise InventoryRefused(_("%(name)s is not a limit of a pool.") % {"name": name})
        if not 1 <= value <= 10 * 366 * 86400:
            raise InventoryRefused(_("A limit is 1 s to ten years, in seconds."))
        setattr(pool, name, value)
    if pool.longest_window_seconds < pool.shortest_window_seconds:
        raise InventoryRefused(_("The longest window must not be shorter than the shortest."))


@transaction.atomic
def create_node(*, actor: User | None, name: str, pool: Pool | None) -> Node:
    """A node that waits for its agent. ``pool`` is where its GPUs go first; those that do not fit find another."""
    try:
        with transaction.atomic():
            node = Node.objects.create(name=name, pool=pool)
    except IntegrityError as error:
        raise InventoryRefused(_("There is a node called %(name)s already.") % {"name": name}) from error
    record_change(actor=actor, action="node.created", subject=name, after={"pool": pool.name if pool else ""})
    return node


@transaction.atomic
def set_node_state(*, actor: User | None, node: Node, state: NodeState, drain_until: dt.datetime | None = None) -> Node:
    """Cordon, drain, put back, by hand: what was planned no longer decides when it returns.

    This is the row alone; ``reservations.draining`` also cares for what the node holds.
    """
    node = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    if node.state == NodeState.RETIRED:
        raise InventoryRefused(_("%(node)s is retired. Add it as a new node.") % {"node": node})
    if state == NodeState.RETIRED:
        raise InventoryRefused(_("Retiring is a step of its own."))
    before, node.state = node.state, state
    node.by_plan, node.drain_until = False, drain_until
    node.save(update_fields=["state", "by_plan", "drain_until"])
    after = {"state": state} | ({"drain_until": drain_until.isoformat()} if drain_until else {})
    record_change(actor=actor, action="node.state", subject=node.name, before={"state": before}, after=after)
    events.tell_everybody_on_commit("node.changed", node=node.pk)
    return node


@transaction.atomic
def set_node_rack(*, actor: User, node: Node, rack: str) -> Node:
    """Say where the node stands; "" where nobody knows. Nothing that is booked moves because of it."""
    node = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    if node.state == NodeState.RETIRED:
        raise InventoryRefused(_("%(node)s is retired. Add it as a new node.") % {"node": node})
    before, node.rack = node.rack, " ".join(rack.split())
    if before != node.rack:
        node.save(update_fields=["rack"])
        record_change(
            actor=actor, action="node.rack", subject=node.name, before={"rack": before}, after={"rack": node.rack}
        )
        events.tell_everybody_on_commit("node.changed", node=node.pk)
    return node


def begin_planned(nodes: QuerySet[Node]) -> list[Node]:
    """Take into maintenance those that are ready and answer; whatever else an operator wants of a node stays."""
    return _plan_moves(nodes, {"state": NodeState.READY, "by_plan": False}, NodeState.MAINTENANCE)


def end_planned(nodes: QuerySet[Node]) -> list[Node]:
    """Give back those that are in maintenance by a plan and answer; who is silent is given back once heard again."""
    return _plan_moves(nodes, {"state": NodeState.MAINTENANCE, "by_plan": True}, NodeState.READY)


@transaction.atomic
def _plan_moves(nodes: QuerySet[Node], only: dict[str, Any], state: NodeState) -> list[Node]:
    answering = {"silent_since__isnull": True, "enrolled_at__isnull": False}
    rows = Node.objects.filter(pk__in=nodes.values("pk"), **only, **answering)
    moved = list(rows.select_for_update(no_key=True).order_by("pk"))
    for node in moved:
        Node.objects.filter(pk=node.pk, **only).update(state=state, by_plan=state == NodeState.MAINTENANCE)
        record_change(
            actor=None, action="node.state", subject=node.name, before={"state": node.state},
            after={"state": state, "by_plan": True})  # fmt: skip
        events.tell_everybody_on_commit("node.changed", node=node.pk)
    return moved
