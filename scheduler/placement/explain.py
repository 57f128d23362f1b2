"""Why something does not fit: one dominant reason, with the numbers that prove it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.placement.earliest import earliest_start
from scheduler.placement.geometry import GpuView, Shape, Window, disjoint_count, free_count, free_slices, room

LOOK_AHEAD_SECONDS = 7 * 86400


class Why(StrEnum):
    NO_DEVICE = "no_device"
    TOO_LARGE = "too_large"
    ALL_HELD = "all_held"
    FRAGMENTED = "fragmented"
    TOO_FEW = "too_few"


@dataclass(frozen=True)
class Reason:
    """``evidence``: whole numbers and names; ``next_free_at`` is in seconds since 1970, None if not within a week."""

    code: Why
    evidence: dict[str, int | str | None] = field(default_factory=dict)


def why_not(shape: Shape, ranks: int, gpus: Iterable[GpuView], window: Window, shapes: Iterable[Shape] = ()) -> Reason:
    """The dominant reason why ``ranks`` of the shape do not fit in the window. Ask only after they did not.

    no_device: no GPU takes this shape at all. too_large: even empty GPUs take fewer. all_held: fewer slices are free in
    all than one instance needs. fragmented: enough are free, but no legal span of them is. too_few: some fit, not all.
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
    return Reason(_code(ranks, when_empty, fitting, sum(free) >= shape.size), evidence)


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
