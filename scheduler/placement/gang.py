"""Places for all ranks of a reservation, or for none."""

from collections.abc import Iterable

from scheduler.placement.geometry import (
    GpuView,
    Placement,
    Shape,
    Window,
    disjoint_count,
    open_starts,
    room,
    span_mask,
    taken_mask,
)
from scheduler.placement.scores import PULL_PER_GPU, GpuScore, shapes_by_geometry
from scheduler.placement.topology import NOTHING_KNOWN, Topology
from scheduler.placement.whole import FreeGpu, whole_gpus


def place_gang(
    shape: Shape,
    ranks: int,
    gpus: Iterable[GpuView],
    window: Window,
    shapes: Iterable[Shape] = (),
    topology: Topology = NOTHING_KNOWN,
) -> tuple[Placement, ...]:
    """One placement a rank for the whole window, or () exactly when the ranks do not fit.

    ``shapes`` are all shapes of the pool: what later reservations may want. The same input gives the same answer, in
    whatever order the GPUs come. Whole GPUs are taken as near each other as ``topology`` tells.
    """
    in_order = sorted(gpus, key=lambda gpu: (gpu.node_id, gpu.index, gpu.gpu_id))
    known = shapes_by_geometry([*shapes, shape])
    pull = min(PULL_PER_GPU, 1 / max(len(in_order), 1))
    open_gpus = []
    for position, gpu in enumerate(in_order):
        candidate = _OpenGpu(shape, gpu, window)
        if candidate.room:
            candidate.score = GpuScore(gpu, window, known, pull * position)
            open_gpus.append(candidate)
    if ranks < 1 or sum(candidate.room for candidate in open_gpus) < ranks:
        return ()
    if all(shape.size == candidate.gpu.slices for candidate in open_gpus):
        return _whole_gpus(shape, ranks, open_gpus, topology)
    chosen = _spans(ranks, open_gpus)
    chosen.sort(key=lambda pair: (pair[0].node_id, pair[0].index, pair[0].gpu_id, pair[1]))
    return tuple(Placement(rank, gpu.gpu_id, start, start + shape.size) for rank, (gpu, start) in enumerate(chosen))


class _OpenGpu:
    """A GPU with room for the shape, while the ranks are being placed. ``room`` is what still fits on it."""

    score: GpuScore

    def __init__(self, shape: Shape, gpu: GpuView, window: Window) -> None:
        self.shape = shape
        self.gpu = gpu
        self.mask = taken_mask(gpu, window)
        self.room = room(shape, gpu, window, self.mask)
        self.best: tuple[float, int] | None = None

    def choose(self, spare: int) -> tuple[float, int]:
        """The best (score, start) that costs the gang at most ``spare`` instances of what still fits; cached."""
        if self.best is None:
            self.best = min(
                (self.score.of(start, self.shape.size), start)
                for start in open_starts(self.shape, self.gpu.slices, self.mask)
                if self.room - 1 - self._room_after(start) <= spare
            )
        return self.best

    def take(self, start: int) -> None:
        self.room = self._room_after(start)
        self.mask |= span_mask(start, self.shape.size)
        self.score.take(start, self.shape.size)
        self.best = None

    def _room_after(self, start: int) -> int:
        mask = self.mask | span_mask(start, self.shape.size)
        return min(self.room - 1, disjoint_count(self.shape, self.gpu.slices, mask))


def _spans(ranks: int, open_gpus: list[_OpenGpu]) -> list[tuple[GpuView, int]]:
    """Cheapest span first (ties: first GPU), never one after which the remaining ranks would not fit any more."""
    chosen: list[tuple[GpuView, int]] = []
    spare = sum(candidate.room for candidate in open_gpus) - ranks
    while len(chosen) < ranks:
        best = min(
            (candidate for candidate in open_gpus if candidate.room), key=lambda candidate: candidate.choose(spare)[0]
        )
        start = best.choose(spare)[1]
        room_before = best.room
        best.take(start)
        lost = room_before - 1 - best.room
        if lost:
            spare -= lost
            for candidate in open_gpus:
                candidate.best = None
        chosen.append((best.gpu, start))
    return chosen


def _whole_gpus(shape: Shape, ranks: int, open_gpus: list[_OpenGpu], topology: Topology) -> tuple[Placement, ...]:
    by_id = {candidate.gpu.gpu_id: candidate for candidate in open_gpus}
    free = (FreeGpu(one.gpu.gpu_id, one.gpu.node_id, one.gpu.index) for one in open_gpus)
    chosen = whole_gpus(ranks, free, topology, lambda gpu: by_id[gpu.gpu_id].choose(0)[0])
    starts = (by_id[gpu.gpu_id].choose(0)[1] for gpu in chosen)
    return tuple(
        Placement(rank, gpu.gpu_id, start, start + shape.size)
        for rank, (gpu, start) in enumerate(zip(chosen, starts, strict=True))
    )
