"""Places for all ranks of a reservation on the calendar, or for none."""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import Placement, Shape, Window, room, taken_mask
from scheduler.placement.scores import GpuScore, shapes_by_geometry
from scheduler.placement.span_tables import SpanTable, span_table
from scheduler.placement.timeline import Masks
from scheduler.placement.whole import FreeGpu, whole_gpus

# A glance goes to the first GPUs with room; those that it ranks first are looked into, at so many moments of time.
CANDIDATES_MOST = 256
LOOKED_INTO_MOST = 24
CELLS_MOST = 24
# Where a glance finds room it looks for the best place among so many GPUs from there on.
NEAR_GPUS = 128
# Found best on a calendar of 40 GPUs at load 1.2: the weights of slices that become useless while the window lasts, of
# windows that meet on the same slices.
LOSS_WEIGHT = 0.6
EDGE_WEIGHT = 1.5


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
    if ranks == 1 and only_nodes is None and not without:
        quick = glance(shape, calendar, window, tuple(shapes))
        if quick is not None:
            return quick
    board = Board(table_on(calendar, shape, tuple(shapes)), calendar, window)
    board.look_away(without)
    board.restrict(only_nodes)
    if ranks < 1 or int(board.room.sum()) < ranks:
        return ()
    if ranks > 1 and shape.size == calendar.slices:
        return _whole(shape, ranks, board, without)
    chosen = sorted(board.take_best(ranks - done) for done in range(ranks))
    return tuple(
        Placement(rank, calendar.gpus[position][0], start, start + shape.size)
        for rank, (position, start) in enumerate(chosen)
    )


def _whole(shape: Shape, ranks: int, board: "Board", without: Collection[int]) -> tuple[Placement, ...]:
    """Whole GPUs as near each other as the calendar's topology tells; of those as near, where leases meet in time."""
    calendar, window = board.calendar, board.window
    known, start = shapes_by_geometry(board.table_shapes), shape.starts[0]

    def score(gpu: FreeGpu) -> float:
        return GpuScore(calendar.view(gpu.gpu_id, window, without=without), window, known, 0).of(start, shape.size)

    free = (FreeGpu(*calendar.gpus[position]) for position in np.flatnonzero(board.room).tolist())
    chosen = whole_gpus(ranks, free, calendar.topology, score)
    return tuple(Placement(rank, gpu.gpu_id, start, start + shape.size) for rank, gpu in enumerate(chosen))


def glance(shape: Shape, calendar: Calendar, window: Window, shapes: tuple[Shape, ...]) -> tuple[Placement, ...] | None:
    """The placement of one rank at a glance, () where it does not fit; None where a glance does not tell: for shapes
    with a count per GPU, windows that begin or end within a cell, and GPUs of more than eight slices."""
    table = calendar.tables.get(shape) if calendar.shapes is shapes else None
    if table is None:
        table = table_on(calendar, shape, shapes)
    cells = calendar.cells
    quick = table.glance
    if quick is None:
        return None
    since, until = window.start, window.end
    for begin, end in cells.blocks if quick.from_first else cells.blocks_from_last:
        taken = cells.look(since, until, begin, end)
        if taken is None:
            return None
        if len(taken) > NEAR_GPUS:
            first = quick.first(taken)
            if first < 0:
                continue
            low = first if quick.from_first else max(first + 1 - NEAR_GPUS, 0)
            taken = taken[low : low + NEAR_GPUS]
            begin += low
        found = quick.best(taken, *cells.beside(since, until, begin, begin + len(taken)))
        if found is not None:
            position, index = found
            start = table.starts[index]
            return (Placement(0, calendar.gpus[begin + position][0], start, start + shape.size),)
    return ()


def table_on(calendar: Calendar, shape: Shape, shapes: tuple[Shape, ...]) -> SpanTable:
    """The shape's table, remembered with the calendar: to look it up by all shapes costs as much as a glance."""
    if calendar.shapes != shapes:
        calendar.shapes = shapes
        calendar.tables.clear()
    table = calendar.tables.get(shape)
    if table is None:
        table = calendar.tables[shape] = span_table(shape, shapes, calendar.slices)
    return table


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
        position, index = self.best(ranks)
        mask = self.table.masks[index]
        self.masks[position] |= mask
        if self.added is None:
            self.added = np.zeros_like(self.masks)
        self.added[position] |= mask
        self.room[position] = min(self.room[position] - 1, self.table.room[self.masks[position]])
        return position, self.table.starts[index]

    def best(self, ranks: int) -> tuple[int, int]:
        """(position, which of the legal spans): the lowest score, then the first GPU, then the first start."""
        positions = np.flatnonzero(self.room)
        positions = positions[:CANDIDATES_MOST] if self.table.pull >= 0 else positions[-CANDIDATES_MOST:]
        scores = self._glance(positions)
        if ranks > 1:
            scores[self._costs_too_much(positions, ranks)] = np.inf
        if len(positions) > LOOKED_INTO_MOST:
            ranked = np.argpartition(scores.min(axis=1), LOOKED_INTO_MOST)[:LOOKED_INTO_MOST]
            ranked.sort()
            positions, scores = positions[ranked], scores[ranked]
        cells = self.calendar.cells.sample(*self.window_ends, positions, CELLS_MOST)
        if self.added is not None:
            cells |= self.added[positions]
        scores += LOSS_WEIGHT / len(cells) * self.table.losses[cells].sum(axis=0)
        place, index = divmod(int(scores.argmin()), len(self.table.masks))
        return int(positions[place]), index

    def _glance(self, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        """Scores by position and span but for what the window's stretches say: infinite where it is taken."""
        table, cells = self.table, self.calendar.cells
        edges = table.edges[cells.at(self.window.start - 1)[positions]]
        edges += table.edges[cells.at(self.window.end)[positions]]
        scores = table.barred[self.masks[positions]]
        scores -= np.float32(EDGE_WEIGHT) * edges
        scores += (positions * (self.table.pull / len(self.masks))).astype(np.float32)[:, None]
        return scores

    def _costs_too_much(self, positions: NDArray[np.intp], ranks: int) -> NDArray[np.bool_]:
        """Spans after which fewer than the ranks would fit."""
        room = self.room[positions, None]
        lost = room - 1 - np.minimum(room - 1, self.table.room_after[self.masks[positions]])
        too_much: NDArray[np.bool_] = lost > int(self.room.sum()) - ranks
        return too_much
