"""Why something does not fit: one dominant reason, with the numbers that prove it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from scheduler.placement.earliest import earliest_start
from scheduler.placement.geometry import (
    MAINTENANCE,
    GpuView,
    Shape,
    Window,
    disjoint_count,
    free_count,
    free_slices,
    room,
)

LOOK_AHEAD_SECONDS = 7 * 86400


class Why(StrEnum):
    NO_DEVICE = "no_device"
    TOO_LARGE = "too_large"
    MAINTENANCE = "maintenance"
    ALL_HELD = "all_held"
    FRAGMENTED = "fragmented"
    TOO_FEW = "too_few"


@dataclass(frozen=True)
class Reason:
    """``evidence``: whole numbers and names; times (``.._at``) are seconds since 1970. ``next_free_at`` is None if not
    within a week, ``node_id`` if more than one node is in maintenance."""

    code: Why
    evidence: dict[str, int | str | None] = field(default_factory=dict)


def why_not(shape: Shape, ranks: int, gpus: Iterable[GpuView], window: Window, shapes: Iterable[Shape] = ()) -> Reason:
    """The dominant reason why ``ranks`` of the shape do not fit in the window. Ask only after they did not.

    no_device: no GPU takes this shape at all. too_large: even empty GPUs take fewer. maintenance: without that all
    would fit. all_held: fewer slices are free in all than one instance needs. fragmented: enough are free, but no legal
    span of them is. too_few: some fit, not all.
    """
    views = list(gpus)
    when_empty = sum(disjoint_count(shape, gpu.slices, 0) for gpu in views)
    fitting = free_count(shape, views, window)
    free = [free_slices(gpu, window) for gpu in views]
    evidence: dict[str, int | str | None] = {
        "ranks": ranks,
        "fitting": fitting,
        "at_most": when_empty,
        "gpus": len(views),
        "gpus_with_free_slices": sum(1 for count in free if count),
        "free_slices": sum(free),
        "slices": sum(gpu.slices for gpu in views),
        "size": shape.size,
        "largest_free": _largest_free(shapes, views, window),
        "next_free_at": earliest_start(
            shape, ranks, views, window.seconds, window.start, window.start + LOOK_AHEAD_SECONDS
        ),
    }
    code = _code(ranks, when_empty, fitting, sum(free) >= shape.size)
    if code not in (Why.NO_DEVICE, Why.TOO_LARGE):
        closed = _closed(views, window)
        if closed and free_count(shape, map(_opened, views), window) >= ranks:
            return Reason(Why.MAINTENANCE, evidence | closed)
    return Reason(code, evidence)


def _opened(gpu: GpuView) -> GpuView:
    """As it would be without maintenance."""
    return replace(gpu, held=tuple(held for held in gpu.held if held.shape != MAINTENANCE))


def _closed(gpus: Iterable[GpuView], window: Window) -> dict[str, int | str | None]:
    """From when to when the maintenance lasts that meets the window, and the one node that it is on."""
    met = [
        (gpu.node_id, held) for gpu in gpus for held in gpu.held if held.shape == MAINTENANCE and held.touches(window)
    ]
    nodes = {node_id for node_id, _held in met}
    return {
        "closed_at": min(held.since for _node, held in met),
        "opens_at": max(held.until for _node, held in met),
        "node_id": nodes.pop() if len(nodes) == 1 else None,
    } if met else {}  # fmt: skip


def _code(ranks: int, when_empty: int, fitting: int, enough_slices: bool) -> Why:
    if not when_empty:
        return Why.NO_DEVICE
    if when_empty < ranks:
        return Why.TOO_LARGE
    if fitting:
        return Why.TOO_FEW
    return Why.FRAGMENTED if enough_slices else Why.ALL_HELD


def _largest_free(shapes: Iterable[Shape], gpus: list[GpuView], window: Window) -> str | None:
    largest_first = sorted(shapes, key=lambda shape: (-shape.size, -shape.compute, shape.name))
    return next((shape.name for shape in largest_first if any(room(shape, gpu, window) for gpu in gpus)), None)
