"""What a choice destroys: the score by which placement ranks spans; lower is better.

Three forces. Slices that become useless to some shape while the window lasts (so 3g goes right, 1g fills holes, and
what is already broken is broken further). Edges in time: a window that begins where another lease on the same slices
ends leaves no gap. And a light pull to the first GPUs, which keeps the last ones whole.
"""

from collections.abc import Iterable
from functools import lru_cache

from scheduler.placement.geometry import GpuView, Shape, Window, disjoint_count, span_mask

LOSS_WEIGHT = 0.3
EDGE_WEIGHT = 0.2
PULL_PER_GPU = 1 / 60


def shapes_by_geometry(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """One shape for each size and set of starts: variants such as +me count their spans only once."""
    kept: dict[tuple, Shape] = {}
    for shape in sorted(shapes, key=lambda shape: (-shape.max_count, shape.name)):
        kept.setdefault((shape.size, tuple(sorted(shape.starts))), shape)
    return tuple(kept.values())


@lru_cache(maxsize=65536)
def stranded_slices(shapes: tuple[Shape, ...], slices: int, mask: int) -> float:
    """Free slices that a shape cannot use, as the mean over the shapes; the large ones lose most."""
    if not shapes:
        return 0.0
    free = slices - mask.bit_count()
    return sum(free - disjoint_count(shape, slices, mask) * shape.size for shape in shapes) / len(shapes)


class GpuScore:
    """Scores of the spans of one GPU for one window; what is held is cut into stretches of equal masks once."""

    def __init__(self, gpu: GpuView, window: Window, shapes: tuple[Shape, ...], pull: float) -> None:
        self.slices = gpu.slices
        self.shapes = shapes
        self.pull = pull
        self.stretches = _stretches(gpu, window)
        self.before = _mask_at(gpu, window.start - 1)
        self.after = _mask_at(gpu, window.end)

    def of(self, start: int, size: int) -> float:
        """The score of placing an instance of ``size`` slices at ``start``."""
        span = span_mask(start, size)
        loss = sum(share * (self._stranded(mask | span) - self._stranded(mask)) for share, mask in self.stretches)
        edges = ((self.before & span).bit_count() + (self.after & span).bit_count()) / size
        return self.pull + LOSS_WEIGHT * loss - EDGE_WEIGHT * edges

    def _stranded(self, mask: int) -> float:
        return stranded_slices(self.shapes, self.slices, mask)

    def take(self, start: int, size: int) -> None:
        """Count the span as held for the whole window, for the ranks that follow."""
        span = span_mask(start, size)
        self.stretches = [(share, mask | span) for share, mask in self.stretches]


def _mask_at(gpu: GpuView, moment: int) -> int:
    mask = 0
    for held in gpu.held:
        if held.since <= moment < held.until:
            mask |= held.mask
    return mask


def _stretches(gpu: GpuView, window: Window) -> list[tuple[float, int]]:
    """The window cut where something begins or ends: (share of the window, slices held meanwhile)."""
    held = [one for one in gpu.held if one.touches(window)]
    cuts = {window.start, window.end}
    for one in held:
        cuts |= {max(one.since, window.start), min(one.until, window.end)}
    times = sorted(cuts)
    result = []
    for begin, end in zip(times, times[1:], strict=False):
        mask = 0
        for one in held:
            if one.since <= begin < one.until:
                mask |= one.mask
        result.append(((end - begin) / window.seconds, mask))
    return result
