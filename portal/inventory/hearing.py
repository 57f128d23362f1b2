"""A node that was silent is heard of again; a node's driver gets worse or better."""

from django.db import transaction

from portal.audit.services import record_change
from portal.inventory.models import Node


@transaction.atomic
def end_silence(node_id: int) -> bool:
    """Whether it was silent until now: of several frames that arrive at once, one finds it so."""
    heard = Node.objects.filter(pk=node_id, silent_since__isnull=False).update(silent_since=None)
    if heard:
        record_heard_again(Node.objects.get(pk=node_id))
    return bool(heard)


def record_heard_again(node: Node) -> None:
    record_change(actor=None, action="node.heard", subject=node.name, after={"silent": False})


def record_degraded(node: Node, before: str, after: str) -> None:
    """``before`` and ``after`` are reasons; "" is none, so a node that is well again has no reason after."""
    record_change(
        actor=None, action="node.degraded", subject=node.name, before={"reason": before}, after={"reason": after}
    )
