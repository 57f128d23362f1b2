"""Whether counts of shapes can be packed at all on empty GPUs, wherever each would go: what no plan can beat.

All legal spans that drivers report lie within each other or apart, never across. So a GPU is a tree of spans, and an
exchange argument is exact: from the largest size down, every instance takes the poorest free span that is legal for it,
the shape with the fewest such spans first, and what is left open falls into its parts. Where a shape has a count per
GPU, or spans cross, a search decides; what it cannot settle in its steps is taken to fit. So False is always certain.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduler.placement.geometry import Shape
from scheduler.placement.layouts import GpuSearch
from scheduler.placement.span_tree import Level, levels_of

# A search goes as deep as it has steps, a GPU at each: so few that Python's stack holds them.
SEARCH_STEPS = 400


class Capacity:
    """The test for one table of shapes. Counts come in the order of ``shapes``."""

    def __init__(self, shapes: tuple[Shape, ...], slices: int) -> None:
        self.shapes = shapes
        self.slices = slices
        self.position = {shape.name: column for column, shape in enumerate(shapes)}
        self.limits = np.array([shape.max_count for shape in shapes], dtype=np.int64)
        self._levels: tuple[Level, ...] | None = levels_of(shapes, slices)
        self._search = GpuSearch(shapes, slices)
        self.is_exact = self._levels is not None and not self._search.counted

    def fits(self, counts: Sequence[int] | Mapping[str, int], gpus: int) -> bool:
        """Whether these counts, by shape or by name, fit on that many empty GPUs. False is certain."""
        if isinstance(counts, Mapping):
            counts = [counts.get(shape.name, 0) for shape in self.shapes]
        if not self._fits_by_spans(counts, gpus):
            return False
        if self.is_exact or not self._is_doubtful(np.array([counts]))[0]:
            return True
        return self._search.may_fit(tuple(counts), gpus, SEARCH_STEPS)

    def fit_rows(self, counts: ArrayLike, gpus: ArrayLike) -> NDArray[np.bool_]:
        """The same for every row of counts; ``gpus`` is one number, or one a row."""
        table = np.asarray(counts, dtype=np.int64)
        number = np.broadcast_to(np.asarray(gpus, dtype=np.int64), (len(table),))
        fitting = self._by_spans(table, number)
        if not self.is_exact:
            for row in np.flatnonzero(fitting & self._is_doubtful(table)):
                fitting[row] = self._search.may_fit(tuple(table[row].tolist()), int(number[row]), SEARCH_STEPS)
        return fitting

    def _is_doubtful(self, table: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows that the spans alone do not settle: those with more than one of a shape that is counted per GPU."""
        if self._levels is None:
            return np.ones(len(table), dtype=bool)
        return table[:, list(self._search.counted)].sum(axis=1) > 1

    def _fits_by_spans(self, counts: Sequence[int], gpus: int) -> bool:
        """As _by_spans, for one row and without NumPy: many times faster than a table of one row."""
        if any(count > gpus * shape.max_count for count, shape in zip(counts, self.shapes, strict=True)):
            return False
        if self._levels is None:
            return (
                sum(count * shape.size for count, shape in zip(counts, self.shapes, strict=True)) <= gpus * self.slices
            )
        free = {self._levels[0].root: gpus}
        return all(level.take_one(counts, free) for level in self._levels)

    def _by_spans(self, table: NDArray[np.int64], gpus: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Exact but for counts per GPU, of which only the sum over all GPUs is looked at."""
        fitting: NDArray[np.bool_] = np.all(table <= gpus[:, None] * self.limits[None, :], axis=1)
        if self._levels is None:
            sizes = np.array([shape.size for shape in self.shapes])
            fitting &= table @ sizes <= gpus * self.slices
            return fitting
        free: dict[int, NDArray[np.int64]] = {self._levels[0].root: gpus}
        for level in self._levels:
            fitting &= level.take(table, free)
        return fitting


@lru_cache(maxsize=64)
def capacity_of(shapes: tuple[Shape, ...], slices: int) -> Capacity:
    """Built once for each table in the life of the process."""
    return Capacity(shapes, slices)
