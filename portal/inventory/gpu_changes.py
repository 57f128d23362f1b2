"""What the audit trail remembers of a GPU: that it joined, left or came back, its faults, its pool and its mode."""

from portal.audit.services import record_change
from portal.inventory.models import Gpu, Node

WATCHED = ("state", "fault", "present", "pool_id", "model", "mig_enabled")

Facts = dict[str, str | int | bool | None]


def watched(gpu: Gpu) -> Facts:
    return {name: getattr(gpu, name) for name in WATCHED}


def record_gpu_change(node: Node, gpu: Gpu, before: Facts | None) -> None:
    """``before`` None: it was not known yet. Nothing is recorded where nothing that is watched differs."""
    after = watched(gpu)
    if before is None:
        record_change(actor=None, action="gpu.joined", subject=_subject(node, gpu), after=after)
        return
    differing = [name for name in WATCHED if before[name] != after[name]]
    if differing:
        record_change(
            actor=None, action="gpu.changed", subject=_subject(node, gpu),
            before={name: before[name] for name in differing}, after={name: after[name] for name in differing},
        )  # fmt: skip


def record_absent(node: Node, gpu: Gpu) -> None:
    record_change(
        actor=None, action="gpu.changed", subject=_subject(node, gpu), before={"present": True},
        after={"present": False},
    )  # fmt: skip


def _subject(node: Node, gpu: Gpu) -> str:
    return f"GPU {gpu.index} of {node.name}"
