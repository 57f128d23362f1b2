"""All that depends on one GPU's held slices alone, worked out once: tables with an entry for every set of slices."""

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.geometry import Shape, counted_as, open_starts, span_mask

# Beyond this many slices a table for every set of them is too large.
SLICES_MOST = 16


class GpuTables:
    """For one set of shapes on GPUs of that many slices. Rows follow ``shapes``, columns are sets of held slices.

    ``spans``: the legal spans of each shape as sets of slices, by start. ``room``: how many more instances fit side by
    side, if none of a shape that is counted per GPU is there yet. ``counted``: the shapes of which the driver allows
    fewer than their spans would; a GPU that has its count of one is full for it, whatever is free. ``counted_with``: by
    these, the shapes that are counted together.
    """

    def __init__(self, shapes: tuple[Shape, ...], slices: int) -> None:
        if slices > SLICES_MOST:
            raise ValueError(f"A GPU of {slices} slices has too many sets of them for tables.")
        self.shapes = shapes
        self.slices = slices
        self.position = {shape.name: row for row, shape in enumerate(shapes)}
        self.spans = tuple(
            tuple(span_mask(start, shape.size) for start in open_starts(shape, slices, 0)) for shape in shapes
        )
        self._every = np.arange(1 << slices)
        disjoint = np.array([self._disjoint(shape, row) for row, shape in enumerate(shapes)], dtype=np.int64)
        limits = np.array([shape.max_count for shape in shapes], dtype=np.int64)
        self.room: NDArray[np.int64] = np.minimum(disjoint, limits[:, None])
        self.counted = tuple(np.flatnonzero(disjoint[:, 0] > limits).tolist())
        kinds = [counted_as(shape.name) for shape in shapes]
        self.counted_with = {
            row: frozenset(other for other, kind in enumerate(kinds) if kind == kinds[row]) for row in self.counted
        }
        self.free: NDArray[np.int64] = slices - np.bitwise_count(self._every).astype(np.int64)

    @cached_property
    def fits(self) -> tuple[bytes, ...]:
        """1 where at least one instance of the shape still fits: bytes, because one entry is read at a time."""
        return tuple((row > 0).astype(np.uint8).tobytes() for row in self.room)

    @cached_property
    def stranded(self) -> NDArray[np.int64]:
        """Free slices that the shape cannot use."""
        sizes = np.array([shape.size for shape in self.shapes], dtype=np.int64)
        stranded: NDArray[np.int64] = self.free[None, :] - self.room * sizes[:, None]
        return stranded

    @cached_property
    def dead(self) -> NDArray[np.int64]:
        """Free slices that no shape at all can use while the rest stays held."""
        usable = np.zeros_like(self._every)
        for spans in self.spans:
            for span in spans:
                usable |= np.where(self._every & span, 0, span)
        dead: NDArray[np.int64] = self.free - np.bitwise_count(usable)
        return dead

    @cached_property
    def open_spans(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """By shape and set of held slices: the legal spans that are free."""
        return tuple(
            tuple(tuple(span for span in spans if not held & span) for held in range(1 << self.slices))
            for spans in self.spans
        )

    def broken(self, size: int) -> NDArray[np.int64]:
        """Aligned blocks of ``size`` slices that are neither free nor wholly held."""
        count = np.zeros_like(self._every)
        for start in range(0, self.slices - size + 1, size):
            held = self._every & span_mask(start, size)
            count += (held != 0) & (held != span_mask(start, size))
        return count

    def losses(self, worth: NDArray[np.float64], shape: int) -> NDArray[np.float64]:
        """By set of held slices and legal span of the shape: what ``worth`` of the set loses by it; NaN where the span
        is not free."""
        spans = np.array(self.spans[shape], dtype=np.int64)[None, :]
        sets = self._every[:, None]
        lost = worth[:, None] - worth[sets | spans]
        return np.where(sets & spans, np.nan, lost)

    def best_span(self, worth: NDArray[np.float64], shape: int) -> tuple[int, ...]:
        """By set of held slices: the free span of the shape by which ``worth`` loses least, of equal ones that which
        begins first; 0 where none is free."""
        lost = self.losses(worth, shape)
        if not lost.size:
            return (0,) * len(self._every)
        best = np.where(np.isnan(lost), np.inf, lost.round(9)).argmin(axis=1)
        chosen = np.array(self.spans[shape], dtype=np.int64)[best]
        return tuple(np.where(self.room[shape] > 0, chosen, 0).tolist())

    def _disjoint(self, shape: Shape, row: int) -> NDArray[np.int64]:
        """Taking the lowest start first is exact, because all spans of one shape have the same length."""
        count = np.zeros_like(self._every)
        taken = self._every.copy()
        for span in self.spans[row]:
            fits = (taken & span) == 0
            count += fits
            taken = np.where(fits, taken | span, taken)
        return count


@lru_cache(maxsize=64)
def gpu_tables(shapes: tuple[Shape, ...], slices: int) -> GpuTables:
    """Built once for each table of shapes in the life of the process."""
    return GpuTables(shapes, slices)
