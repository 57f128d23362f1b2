"""What is held on every GPU of a pool, cell by cell of time: one OR answers for all GPUs at once.

Cells are a matrix of time x GPU with one bit a slice, and coarser copies of it an hour and a day a row. A cell counts
as taken if anything is held within it at all; the exact windows stand beside. So a free cell is final, and where a
window begins or ends within a cell, what is taken there is confirmed against the exact windows: leases may touch.

Not for several threads at once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.census import Census
from scheduler.placement.geometry import GpuView, Held, Shape, Window, span_mask
from scheduler.placement.register import Register
from scheduler.placement.span_tables import SpanTable
from scheduler.placement.timeline import DAY_SECONDS, Timeline
from scheduler.placement.topology import NOTHING_KNOWN

Masks = NDArray[np.unsignedinteger[Any]]
HORIZON_SECONDS = 31 * DAY_SECONDS
# A row that lasts longer is looked at whatever day is asked about.
LONG_DAYS = 40


class Row(NamedTuple):
    """One thing held: the span start:end of the GPU at ``position``, from ``since`` until ``until``."""

    key: int
    position: int
    mask: int
    start: int
    end: int
    since: int
    until: int
    shape: str
    movable: bool

    @property
    def volume(self) -> int:
        """Slice-seconds."""
        return (self.end - self.start) * (self.until - self.since)

    def touches(self, since: int, until: int) -> bool:
        return self.since < until and since < self.until


class Calendar:
    """``gpus`` are (id, node id, index), and stand in the order of node and index whatever the order they come in.

    Windows may lie anywhere; the cells reach from the day of ``origin`` over the horizon, and what lies beyond is
    looked up in the exact windows.
    """

    def __init__(
        self,
        gpus: Sequence[tuple[int, int, int]],
        slices: int,
        origin: int,
        cell_seconds: int = 300,
        horizon_seconds: int = HORIZON_SECONDS,
    ) -> None:
        self.gpus = sorted(gpus, key=lambda gpu: (gpu[1], gpu[2], gpu[0]))
        self.slices = slices
        self.position = {gpu_id: position for position, (gpu_id, _node, _index) in enumerate(self.gpus)}
        self.rows: dict[int, Row] = {}
        self.topology = NOTHING_KNOWN
        self.cells = Timeline(len(self.gpus), slices, origin, cell_seconds, horizon_seconds)
        # What the shapes do that were asked for last.
        self.shapes: tuple[Shape, ...] = ()
        self.tables: dict[Shape, SpanTable] = {}
        # The key up to which the re-plan in the background came.
        self.improved_until = 0
        self.register = Register()
        self.census = Census(self.cells.days * DAY_SECONDS // cell_seconds, cell_seconds)
        self._by_day: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
        self._long: defaultdict[int, list[Row]] = defaultdict(list)

    def hold(
        self, key: int, gpu_id: int, start: int, end: int, since: int, until: int, shape: str, movable: bool
    ) -> None:
        """Hold the span start:end of a GPU; what ``key`` held before is let go. A GPU unknown here holds nothing."""
        self.drop(key)
        position = self.position.get(gpu_id)
        if position is not None and since < until:
            row = Row(key, position, span_mask(start, end - start), start, end, since, until, shape, movable)
            self.put(row)
            self.census.add(row, self.cells.since, self.cells.until, 1)

    def drop(self, key: int) -> None:
        """Let go what ``key`` holds; nothing happens if it holds nothing."""
        if key in self.rows:
            self.census.add(self.take(key), self.cells.since, self.cells.until, -1)

    def put(self, row: Row) -> None:
        """Hold a row whose key holds nothing, on trial: the census knows nothing of it."""
        self.rows[row.key] = row
        for shelf in self._shelves(row):
            shelf.append(row)
        self.register.add(row)
        self.cells.paint(row.position, row.mask, row.since, row.until)

    def take(self, key: int) -> Row:
        """Let go what ``key`` holds, on trial, and return it."""
        row = self.rows.pop(key)
        for shelf in self._shelves(row):
            shelf.remove(row)
        self.register.remove(key)
        shared = self.cells.is_shared(row.position)
        others = self.rows_on(row.position, *self.cells.rounded(row.since, row.until)) if shared else ()
        self.cells.wipe(row.position, row.mask, row.since, row.until, tuple(others))
        return row

    def advance(self, now: int) -> None:
        """Let the cells begin with the day of ``now``; what ended before that day is forgotten."""
        was_since, was_until = self.cells.since, self.cells.until
        if not self.cells.roll(now):
            return
        self.census.forget(was_since, min(self.cells.since, was_until))
        for row in list(self.rows.values()):
            if row.until <= self.cells.since:
                self._forget(row)
            elif row.until > was_until:
                self.census.add(row, max(was_until, self.cells.since), self.cells.until, 1)
                self.cells.paint(row.position, row.mask, max(row.since, was_until), row.until)

    def taken(self, window: Window) -> Masks:
        """The slices of each GPU, in the order of ``gpus``, that are held at any moment of the window. Exact."""
        masks, doubtful = self.cells.taken(window.start, window.end)
        for position in doubtful:
            masks[position] = self.taken_on(position, window)
        return masks

    def taken_on(self, position: int, window: Window) -> int:
        """The same for one GPU, from the exact windows."""
        mask = 0
        for row in self.rows_on(position, window.start, window.end):
            mask |= row.mask
        return mask

    def rows_on(self, position: int, since: int, until: int) -> Iterator[Row]:
        """What is held on one GPU at any moment between the two, each once."""
        first = since // DAY_SECONDS
        for day in range(first, (until - 1) // DAY_SECONDS + 1):
            for row in self._by_day.get((position, day), ()):
                # A row stands on the shelf of each of its days, and is told of on the first of them that is asked for.
                if row.since < until and since < row.until and (day == first or row.since // DAY_SECONDS == day):
                    yield row
        for row in self._long.get(position, ()):
            if row.touches(since, until):
                yield row

    def view(self, gpu_id: int, window: Window, *, without: Collection[int] = ()) -> GpuView:
        """One GPU with all that is held on it in the window or just beside it, but for what these keys hold."""
        position = self.position[gpu_id]
        _id, node_id, index = self.gpus[position]
        rows = sorted(row for row in self.rows_on(position, window.start - 1, window.end + 1) if row.key not in without)
        held = tuple(Held(row.start, row.end, row.since, row.until, row.shape) for row in rows)
        return GpuView(gpu_id, node_id, index, self.slices, held)

    def _shelves(self, row: Row) -> Iterator[list[Row]]:
        first, last = row.since // DAY_SECONDS, (row.until - 1) // DAY_SECONDS
        if last - first > LONG_DAYS:
            yield self._long[row.position]
            return
        for day in range(first, last + 1):
            yield self._by_day[row.position, day]

    def _forget(self, row: Row) -> None:
        del self.rows[row.key]
        self.register.remove(row.key)
        for shelf in self._shelves(row):
            shelf.remove(row)
        for day in range(row.since // DAY_SECONDS, (row.until - 1) // DAY_SECONDS + 1):
            if not self._by_day.get((row.position, day), True):
                del self._by_day[row.position, day]
