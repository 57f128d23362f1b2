"""The canvas of one GPU: which spans a profile may take, and which are free during a window.

A set of slices is an integer with one bit a slice. All times are whole seconds since 1970, all ranges half-open.
What is legal comes from the driver's table, so another slicing scheme is another table of shapes, not new code.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

# The shape of what is held because a GPU is in maintenance.
MAINTENANCE = "maintenance"
# In the names of shapes that have media engines, of which a GPU has one set.
MEDIA = "+me"


@dataclass(frozen=True)
class Shape:
    """A profile as placement sees it. ``max_count`` is how many of it, and of what is counted with it, a GPU takes at
    once, whatever spans are free."""

    name: str
    size: int
    starts: tuple[int, ...]
    compute: int
    max_count: int


@dataclass(frozen=True)
class Window:
    start: int
    end: int

    @property
    def seconds(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Held:
    """The span start:end of a GPU, held from ``since`` until ``until`` by an instance of the named shape."""

    start: int
    end: int
    since: int
    until: int
    shape: str

    @property
    def mask(self) -> int:
        return span_mask(self.start, self.end - self.start)

    def touches(self, window: Window) -> bool:
        return self.since < window.end and window.start < self.until


@dataclass(frozen=True)
class GpuView:
    """A GPU that may be booked, with everything that is held on it around the windows asked about."""

    gpu_id: int
    node_id: int
    index: int
    slices: int
    held: tuple[Held, ...]


class Placement(NamedTuple):
    """Rank ``rank`` on the span start:end of a GPU."""

    rank: int
    gpu_id: int
    start: int
    end: int


def counted_as(name: str) -> str:
    """The same for shapes that are counted together on a GPU: those with media engines, whatever their size."""
    return MEDIA if MEDIA in name else name


def span_mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def taken_mask(gpu: GpuView, window: Window) -> int:
    """The slices that are held at any moment of the window."""
    mask = 0
    for held in gpu.held:
        if held.touches(window):
            mask |= held.mask
    return mask


def free_slices(gpu: GpuView, window: Window) -> int:
    """How many slices nobody holds at any moment of the window."""
    return gpu.slices - taken_mask(gpu, window).bit_count()


@lru_cache(maxsize=65536)
def open_starts(shape: Shape, slices: int, mask: int) -> tuple[int, ...]:
    """Legal starts of the shape on a GPU of that many slices that touch no slice of ``mask``, in ascending order."""
    return tuple(
        start
        for start in sorted(set(shape.starts))
        if start + shape.size <= slices and not mask & span_mask(start, shape.size)
    )


@lru_cache(maxsize=65536)
def disjoint_count(shape: Shape, slices: int, mask: int) -> int:
    """The most instances of the shape that fit side by side beside ``mask``.

    Taking the lowest start first is exact, because all spans of one shape have the same length.
    """
    count, reach = 0, 0
    for start in open_starts(shape, slices, mask):
        if start >= reach:
            count, reach = count + 1, start + shape.size
    return min(count, shape.max_count)


def same_count_peak(shape: Shape, held: Iterable[Held], window: Window) -> int:
    """The most instances that are counted with this shape and held at one moment of the window."""
    kind = counted_as(shape.name)
    steps = []
    for one in held:
        if counted_as(one.shape) == kind and one.touches(window):
            steps += [(one.since, 1), (one.until, -1)]
    peak = count = 0
    for _, step in sorted(steps):
        count += step
        peak = max(peak, count)
    return peak


def room(shape: Shape, gpu: GpuView, window: Window, mask: int | None = None) -> int:
    """How many more instances of the shape the GPU can hold for the whole window; ``mask`` if known already."""
    taken = taken_mask(gpu, window) if mask is None else mask
    count = disjoint_count(shape, gpu.slices, taken)
    if count and disjoint_count(shape, gpu.slices, 0) >= shape.max_count:
        count = min(count, shape.max_count - same_count_peak(shape, gpu.held, window))
    return max(count, 0)


def free_starts(shape: Shape, gpu: GpuView, window: Window) -> tuple[int, ...]:
    """Legal starts at which the shape may be placed for the whole window; none if the GPU has its ``max_count``."""
    mask = taken_mask(gpu, window)
    return open_starts(shape, gpu.slices, mask) if room(shape, gpu, window, mask) else ()


def free_count(shape: Shape, gpus: Iterable[GpuView], window: Window) -> int:
    """The most instances of the shape that the GPUs can hold at once for the whole window."""
    return sum(room(shape, gpu, window) for gpu in gpus)
