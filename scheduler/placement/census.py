"""How many of each shape are held in every cell of time, wherever they are: what the test of capacity looks at."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scheduler.placement.calendar import Row

FIRST_SHAPES = 8


class Census:
    """Counts what covers a cell from its begin to its end, so that whatever it counts is held all at once there.
    Cells are counted from 1970 on, in a ring like that of the timeline."""

    def __init__(self, cells: int, cell_seconds: int) -> None:
        self.cell_seconds = cell_seconds
        self.column: dict[str, int] = {}
        self.counts = np.zeros((cells, FIRST_SHAPES), dtype=np.int32)

    def add(self, row: "Row", since: int, until: int, by: int) -> None:
        """Count the row once more, or once less, between the two moments."""
        column = self.column.get(row.shape)
        if column is None:
            column = self._learn(row.shape)
        first, last = self.inwards(max(row.since, since), min(row.until, until))
        for rows in self.rows(first, last):
            self.counts[rows, column] += by

    def inwards(self, since: int, until: int) -> tuple[int, int]:
        """The cells that lie wholly between the two."""
        return -(-since // self.cell_seconds), until // self.cell_seconds

    def rows(self, first: int, last: int) -> tuple[slice, ...]:
        count = len(self.counts)
        if first >= last:
            return ()
        begin, length = first % count, last - first
        if begin + length <= count:
            return (slice(begin, begin + length),)
        return slice(begin, count), slice(0, begin + length - count)

    def of(self, names: list[str], first: int, last: int) -> NDArray[np.int32]:
        """Counts of these shapes, a row for each of the cells."""
        columns = [self.column[name] if name in self.column else self._learn(name) for name in names]
        return np.concatenate([self.counts[rows][:, columns] for rows in self.rows(first, last)])

    def forget(self, since: int, until: int) -> None:
        for rows in self.rows(*self.inwards(since, until)):
            self.counts[rows] = 0

    def _learn(self, shape: str) -> int:
        column = self.column[shape] = len(self.column)
        if column == self.counts.shape[1]:
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)], axis=1)
        return column
