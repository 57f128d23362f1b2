"""Room made for one rank: directly, by a swap of two GPUs, or by planned leases that give way and are placed again."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.calendar import Row
from scheduler.placement.geometry import Shape, Window, span_mask
from scheduler.placement.placing import Board
from scheduler.placement.span_tables import SpanTable, span_table
from scheduler.placement.swapping import ROWS_MOST, apply_swap, find_swap
from scheduler.placement.trial import Trial

# So many spans are tried for the rank itself, and so many for each of those that give way.
SPANS_TRIED = 24
SPANS_TRIED_FURTHER = 8
# What gives way may be so much larger than what it gives way to.
VOLUME_RATIO = 2.0
# Of two sets of equal volume the one of fewer leases gives way.
COST_OF_A_MOVE = 5400


class Mover:
    """Looks for places on the calendar of a trial. ``steps``: how many spans may still be cleared on trial;
    ``in_time`` says whether there is time left."""

    def __init__(self, trial: Trial, shapes: tuple[Shape, ...], steps: int, in_time: Callable[[], bool]) -> None:
        self.trial = trial
        self.calendar = trial.calendar
        self.shapes = shapes
        self.by_name = {shape.name: shape for shape in shapes}
        self.steps = steps
        self.in_time = in_time
        tables = [span_table(shape, shapes, self.calendar.slices) for shape in shapes]
        trial.counted = frozenset(table.shape.name for table in tables if table.is_counted)

    def settle(self, row: Row, depth: int, nodes: NDArray[np.bool_] | None = None, ratio: float = VOLUME_RATIO) -> bool:
        """Put the row somewhere; its position and span do not count. Others may move for it, in chains of ``depth``.
        False leaves the trial as it was. ``nodes``: by position, where the row may go."""
        shape = self.by_name[row.shape]
        table = span_table(shape, self.shapes, self.calendar.slices)
        if self._put_where_free(row, table, nodes):
            return True
        if self.steps <= 0 or not self.in_time() or table.is_counted:
            return False
        if nodes is None and row.movable and self._put_by_swap(row, table):
            return True
        return depth > 0 and self._put_by_displacing(row, table, depth, nodes, ratio)

    def _put(self, row: Row, position: int, start: int, size: int) -> None:
        mask = span_mask(start, size)
        self.trial.put(row._replace(position=position, start=start, end=start + size, mask=mask))

    def _put_where_free(self, row: Row, table: SpanTable, nodes: NDArray[np.bool_] | None) -> bool:
        board = Board(table, self.calendar, Window(row.since, row.until))
        if nodes is not None:
            board.room[~nodes] = 0
        if not board.room.any():
            return False
        position, index = board.best(1)
        self._put(row, position, table.starts[index], table.shape.size)
        return True

    def _put_by_swap(self, row: Row, table: SpanTable) -> bool:
        swap = find_swap(self.trial, table, row.since, row.until)
        if swap is None:
            return False
        apply_swap(self.trial, swap)
        self._put(row, swap.into, swap.start, table.shape.size)
        return True

    def _put_by_displacing(
        self, row: Row, table: SpanTable, depth: int, nodes: NDArray[np.bool_] | None, ratio: float
    ) -> bool:
        slots, costs = self._costs(row, table)
        if nodes is not None:
            costs[:, ~nodes] = np.inf
        may_settle: dict[int, bool] = {}
        tried = SPANS_TRIED if ratio >= VOLUME_RATIO else SPANS_TRIED_FURTHER
        most = ratio * table.shape.size * (row.until - row.since)
        flat = costs.ravel()
        cheapest = np.argpartition(flat, tried)[:tried] if len(flat) > tried else np.arange(len(flat))
        for choice in cheapest[np.argsort(flat[cheapest], kind="stable")].tolist():
            if flat[choice] >= most or self.steps <= 0 or not self.in_time():
                return False
            index, position = divmod(choice, costs.shape[1])
            keys = self._keys_on(slots, position, table.masks[index])
            if depth == 1 and not all(self._may_settle(key, may_settle) for key in keys):
                continue
            self.steps -= 1
            if self._clear(row, table, index, position, keys, depth):
                return True
        return False

    def _may_settle(self, key: int, known: dict[int, bool]) -> bool:
        """Whether what the key holds would find room elsewhere as things stand, by itself or by a swap."""
        if key not in known:
            row = self.calendar.rows[key]
            known[key] = row.shape in self.by_name and self._finds_room(row)
        return known[key]

    def _finds_room(self, row: Row) -> bool:
        table = span_table(self.by_name[row.shape], self.shapes, self.calendar.slices)
        if Board(table, self.calendar, Window(row.since, row.until)).room.any():
            return True
        return not table.is_counted and find_swap(self.trial, table, row.since, row.until, ROWS_MOST) is not None

    def _costs(self, row: Row, table: SpanTable) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """(slots of what meets the window, cost of clearing it by span and position)."""
        register = self.calendar.register
        slots = register.meeting(row.since, row.until)
        costs = register.cost[slots] + COST_OF_A_MOVE
        keys = register.key[slots]
        for key in self.trial.settled:
            costs[keys == key] = np.inf
        masks, positions, gpus = register.mask[slots], register.position[slots], len(self.calendar.gpus)
        return slots, np.stack(
            [
                np.bincount(positions, weights=np.where(masks & np.uint64(mask), costs, 0.0), minlength=gpus)
                for mask in table.masks
            ]
        )

    def _keys_on(self, slots: NDArray[np.intp], position: int, mask: int) -> list[int]:
        register = self.calendar.register
        there = slots[register.position[slots] == position]
        return register.key[there[(register.mask[there] & np.uint64(mask)) != 0]].tolist()

    def _clear(self, row: Row, table: SpanTable, index: int, position: int, keys: list[int], depth: int) -> bool:
        """Put the row on this span, and elsewhere all that the keys hold there."""
        mark = self.trial.mark()
        gone = [self.trial.take(key) for key in keys]
        self._put(row, position, table.starts[index], table.shape.size)
        self.trial.settled += [row.key, *keys]
        for one in sorted(gone, key=lambda row: (-row.volume, row.key)):
            if one.shape not in self.by_name or not self.settle(one, depth - 1, ratio=1.0):
                self.trial.undo(mark)
                return False
        return True
