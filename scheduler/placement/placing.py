"""Places for all ranks of a reservation on the calendar, or for none."""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.calendar import Calendar
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import Placement, Shape, Window, room, taken_mask
from scheduler.placement.scores import EDGE_WEIGHT, LOSS_WEIGHT
from scheduler.placement.span_tables import SpanTable, span_table
from scheduler.placement.timeline import Masks

# The finest look at a window that a score takes, and how many GPUs get one: those that a glance ranks first.
CELLS_MOST = 96
CANDIDATES_MOST = 64
# From the first GPU to the last. It keeps the last ones whole.
PULL = 1.0


def place(
    shape: Shape,
    ranks: int,
    calendar: Calendar,
    window: Window,
    shapes: Iterable[Shape],
    *,
    only_nodes: Collection[int] | None = None,
    without: Collection[int] = (),
) -> tuple[Placement, ...]:
    """One placement a rank for the whole window, or () exactly when the ranks do not fit.

    ``shapes`` are all shapes of the pool: what later reservations may want. ``only_nodes``: no other node will do.
    ``without``: keys that are looked away from. The same holdings give the same answer in whatever order they came.
    """
    board = Board(span_table(shape, tuple(shapes), calendar.slices), calendar, window)
    board.look_away(without)
    board.restrict(only_nodes)
    if ranks < 1 or int(board.room.sum()) < ranks:
        return ()
    if ranks > 1 and shape.size == calendar.slices:
        free = (calendar.view(calendar.gpus[position][0], window) for position in np.flatnonzero(board.room))
        return place_gang(shape, ranks, free, window, board.table_shapes)
    chosen = sorted(board.take_best(ranks - done) for done in range(ranks))
    return tuple(
        Placement(rank, calendar.gpus[position][0], start, start + shape.size)
        for rank, (position, start) in enumerate(chosen)
    )


class Board:
    """The GPUs as one window finds them, while ranks are being placed. ``room``: how many more fit on each."""

    def __init__(self, table: SpanTable, calendar: Calendar, window: Window) -> None:
        self.table = table
        self.calendar = calendar
        self.window = window
        self.masks: Masks = calendar.taken(window)
        self.room: NDArray[np.int64] = table.room[self.masks]
        self.added: Masks | None = None
        if table.is_counted:
            for position in np.flatnonzero(self.room):
                view = calendar.view(calendar.gpus[position][0], window)
                self.room[position] = room(table.shape, view, window, int(self.masks[position]))

    @property
    def table_shapes(self) -> tuple[Shape, ...]:
        return self.table.shapes

    def restrict(self, only_nodes: Collection[int] | None) -> None:
        if only_nodes is not None:
            allowed = np.array([node_id in only_nodes for _gpu, node_id, _index in self.calendar.gpus], dtype=bool)
            self.room[~allowed] = 0

    def look_away(self, keys: Collection[int]) -> None:
        """Count what these keys hold as free."""
        rows = [row for key in keys if (row := self.calendar.rows.get(key)) and row.touches(*self.window_ends)]
        for position in {row.position for row in rows}:
            view = self.calendar.view(self.calendar.gpus[position][0], self.window, without=keys)
            self.masks[position] = mask = taken_mask(view, self.window)
            self.room[position] = room(self.table.shape, view, self.window, mask)

    @property
    def window_ends(self) -> tuple[int, int]:
        return self.window.start, self.window.end

    def take_best(self, ranks: int) -> tuple[int, int]:
        """(position, start) of the best span, counted as held from now on; none after which the ``ranks`` that are
        still to be placed, this one among them, would not fit."""
        spare = int(self.room.sum()) - ranks
        position, index = self._best(spare)
        mask = self.table.masks[index]
        self.masks[position] |= mask
        if self.added is None:
            self.added = np.zeros_like(self.masks)
        self.added[position] |= mask
        self.room[position] = min(self.room[position] - 1, self.table.room[self.masks[position]])
        return position, self.table.starts[index]

    def _best(self, spare: int) -> tuple[int, int]:
        """The lowest score wins, then the first GPU, then the first start."""
        positions = np.flatnonzero(self.room)
        before, after = (self.calendar.cells.at(moment) for moment in (self.window.start - 1, self.window.end))
        scores = self._glance(positions, before, after, spare)
        if len(positions) > CANDIDATES_MOST:
            ranked = np.argsort(scores.min(axis=0), kind="stable")[:CANDIDATES_MOST]
            ranked.sort()
            positions, scores = positions[ranked], scores[:, ranked]
        cells = self.calendar.cells.sample(*self.window_ends, positions, CELLS_MOST)
        if self.added is not None:
            cells = cells | self.added[positions]
        for index, loss in enumerate(self.table.losses):
            scores[index] += LOSS_WEIGHT * loss[cells].mean(axis=0)
        index, place = divmod(int(scores.argmin()), len(positions))
        return int(positions[place]), index

    def _glance(self, positions: NDArray[np.intp], before: Masks, after: Masks, spare: int) -> NDArray[np.float32]:
        """Scores by start and position but for what the window's stretches say: infinite where it is taken."""
        table, masks = self.table, self.masks[positions]
        before, after = before[positions], after[positions]
        pull = positions.astype(np.float32) * np.float32(PULL / len(self.masks))
        scores = np.empty((len(table.masks), len(positions)), dtype=np.float32)
        weight = np.float32(EDGE_WEIGHT / table.shape.size)
        for index, mask in enumerate(table.masks):
            scores[index] = pull - weight * (table.bits[before & mask] + table.bits[after & mask])
            scores[index][(masks & mask) != 0] = np.inf
            if spare < len(self.masks) * self.calendar.slices:
                lost = self.room[positions] - 1 - table.room[masks | mask]
                scores[index][lost > spare] = np.inf
        return scores
