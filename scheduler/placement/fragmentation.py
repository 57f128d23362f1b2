"""How broken up the free slices of a pool are, in numbers that people understand, and why a request found no place.

What fits as things lie is set beside what would fit if all that is held at a moment were packed anew: the difference is
what layout costs, and what moving can win. What does not fit even then lacks capacity.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.placement.capacity import capacity_of
from scheduler.placement.geometry import (
    MAINTENANCE,
    GpuView,
    Shape,
    Window,
    disjoint_count,
    free_count,
    open_starts,
    span_mask,
    taken_mask,
)
from scheduler.placement.scores import shapes_by_geometry


@dataclass(frozen=True)
class Room:
    """How many of a shape fit in the window: as things lie, and if what is held there were packed anew."""

    shape: Shape
    bookable: int
    if_packed: int

    @property
    def lost(self) -> int:
        return self.if_packed - self.bookable


@dataclass(frozen=True)
class Fragmentation:
    """``free``: slices that nobody holds in the window, of ``slices``; ``stranded``: those of them that no shape can
    take where they lie. ``rooms``: the largest shape first. GPUs in maintenance are left out of all."""

    slices: int
    free: int
    stranded: int
    rooms: tuple[Room, ...]


class Cause(StrEnum):
    NODE = "node"
    LAYOUT = "layout"
    CAPACITY = "capacity"


@dataclass(frozen=True)
class Refusal:
    """``fitting``: how many fit where they may sit; ``elsewhere``: on all nodes; ``if_packed``: after packing anew."""

    cause: Cause
    fitting: int
    elsewhere: int
    if_packed: int


def fragmentation(gpus: Iterable[GpuView], window: Window, shapes: Iterable[Shape]) -> Fragmentation:
    views, known = open_views(gpus, window), tuple(shapes)
    masks = Counter((gpu.slices, taken_mask(gpu, window)) for gpu in views)
    stranded = sum(count * _stranded(known, slices, mask) for (slices, mask), count in masks.items())
    return Fragmentation(
        slices=sum(gpu.slices for gpu in views),
        free=sum(count * (slices - mask.bit_count()) for (slices, mask), count in masks.items()),
        stranded=stranded,
        rooms=rooms(views, window, known, sorted(known, key=lambda one: (-one.size, -one.compute, one.name))),
    )


def rooms(
    gpus: Sequence[GpuView], window: Window, shapes: tuple[Shape, ...], asked: Iterable[Shape]
) -> tuple[Room, ...]:
    """For each shape that is asked about. ``gpus`` are open ones."""
    found = []
    for shape in asked:
        bookable = free_count(shape, gpus, window)
        found.append(Room(shape, bookable, max(bookable, if_packed(shape, gpus, window, shapes))))
    return tuple(found)


def cause_of(
    shape: Shape,
    ranks: int,
    gpus: Iterable[GpuView],
    window: Window,
    shapes: Iterable[Shape],
    *,
    only_nodes: Collection[int] | None = None,
) -> Refusal:
    """The dominant cause for which the ranks did not fit; ask only after they did not. node: they would on others.
    capacity: they would not, however all that is held were packed. layout: they would if it were."""
    views = open_views(gpus, window)
    (room,) = rooms(views, window, tuple(shapes), [shape])
    here = [gpu for gpu in views if only_nodes is None or gpu.node_id in only_nodes]
    fitting = free_count(shape, here, window)
    if room.bookable >= ranks:
        cause = Cause.NODE
    else:
        cause = Cause.LAYOUT if room.if_packed >= ranks else Cause.CAPACITY
    return Refusal(cause, fitting, room.bookable, room.if_packed)


def if_packed(shape: Shape, gpus: Sequence[GpuView], window: Window, shapes: tuple[Shape, ...]) -> int:
    """The most of the shape for which there is capacity throughout the window. Leases are taken to go anywhere at any
    moment, which is more than moving can do: what does not fit then fits in no way."""
    return sum(
        min(_most_beside(shape, counts, len(alike), shapes, slices) for counts in _held_in_turn(alike, window))
        for slices, alike in _by_height(gpus)
    )


def open_views(gpus: Iterable[GpuView], window: Window) -> list[GpuView]:
    """Without those that maintenance closes at some moment of the window."""
    return [
        gpu for gpu in gpus if not any(held.shape == MAINTENANCE and held.touches(window) for held in gpu.held)
    ]  # fmt: skip


def _by_height(gpus: Sequence[GpuView]) -> Iterator[tuple[int, list[GpuView]]]:
    for slices in sorted({gpu.slices for gpu in gpus}):
        yield slices, [gpu for gpu in gpus if gpu.slices == slices]


def _held_in_turn(gpus: Sequence[GpuView], window: Window) -> Iterator[Counter[str]]:
    """How many of each shape are held, from one moment at which that changes to the next."""
    held = [one for gpu in gpus for one in gpu.held if one.touches(window)]
    steps = sorted(
        (max(moment, window.start), by, one.shape)
        for one in held
        for moment, by in ((one.since, 1), (one.until, -1))
        if moment < window.end
    )
    counts: Counter[str] = Counter()
    reached = window.start
    for moment, by, shape in steps:
        if moment > reached:
            yield counts
            reached = moment
        counts[shape] += by
    yield counts


def _most_beside(shape: Shape, held: Counter[str], gpus: int, shapes: tuple[Shape, ...], slices: int) -> int:
    """The most of the shape that fit on the GPUs beside what is held, by halving. Shapes that lie alike are counted as
    one, which spares the search for shapes with a count per GPU; that count is a limit over all GPUs."""
    alike = {(one.size, one.starts): one for one in shapes_by_geometry(shapes)}
    stands_for = {one.name: alike[one.size, one.starts].name for one in shapes if (one.size, one.starts) in alike}
    beside: Counter[str] = Counter()
    for name, count in held.items():
        beside[stands_for.get(name, name)] += count
    name, capacity = stands_for[shape.name], capacity_of(tuple(alike.values()), slices)
    low, high = 0, gpus * disjoint_count(shape, slices, 0) - held[shape.name]
    while low < high:
        middle = (low + high + 1) // 2
        if capacity.fits(beside + Counter({name: middle}), gpus):
            low = middle
        else:
            high = middle - 1
    return low


def _stranded(shapes: tuple[Shape, ...], slices: int, mask: int) -> int:
    """Free slices that lie in no free span of any shape."""
    usable = 0
    for shape in shapes:
        for start in open_starts(shape, slices, mask):
            usable |= span_mask(start, shape.size)
    return slices - (mask | usable).bit_count()
