"""The cells of the calendar: a ring of rows of time, one byte (or wider) a GPU, and above it an hour or a day a row."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Masks = NDArray[np.unsignedinteger[Any]]
HOUR_SECONDS = 3600
DAY_SECONDS = 86400
# Below this many bytes one OR over the finest cells is quicker than the pieces of the coarser ones.
PLAIN_BYTES_MOST = 150_000
# Coarser cells cost time at every change; up to so many GPUs they save none.
PLAIN_GPUS_MOST = 256

# So many GPUs are looked at first, and four times as many each time that those had no room.
FIRST_BLOCK_GPUS = 512

_or_over = np.bitwise_or.reduce


class Holding(Protocol):
    @property
    def mask(self) -> int: ...
    @property
    def since(self) -> int: ...
    @property
    def until(self) -> int: ...


def dtype_for(slices: int) -> np.dtype[Any]:
    return np.min_scalar_type((1 << slices) - 1)


class Timeline:
    """Covers whole days: from ``since`` until ``until``, in seconds since 1970. Cells are counted from 1970 on, and
    cell c is row c modulo the number of rows, so that rolling on wipes the days that passed and moves nothing."""

    def __init__(self, gpus: int, slices: int, origin: int, cell_seconds: int, horizon_seconds: int) -> None:
        if DAY_SECONDS % cell_seconds or not 0 < cell_seconds <= HOUR_SECONDS or HOUR_SECONDS % cell_seconds:
            raise ValueError(f"An hour is no whole number of cells of {cell_seconds} s.")
        self.gpus = gpus
        self.cell_seconds = cell_seconds
        self.dtype = dtype_for(slices)
        self.days = -(-horizon_seconds // DAY_SECONDS) + 1
        self.since = origin // DAY_SECONDS * DAY_SECONDS
        self.until = self.since + self.days * DAY_SECONDS
        self.blocks = _blocks(gpus)
        self.blocks_from_last = tuple((gpus - end, gpus - begin) for begin, end in self.blocks)
        self._shared = np.zeros(gpus, dtype=bool)
        self.levels = [
            _Level(seconds, np.zeros((self.days * DAY_SECONDS // seconds, gpus), self.dtype))
            for seconds in ((cell_seconds, HOUR_SECONDS, DAY_SECONDS) if gpus > PLAIN_GPUS_MOST else (cell_seconds,))
        ]
        self._finest = self.levels[0].masks
        self._flat = self._finest.reshape(-1).data
        self._count = len(self._finest)

    @property
    def nbytes(self) -> int:
        return sum(level.masks.nbytes for level in self.levels)

    def rounded(self, since: int, until: int) -> tuple[int, int]:
        """Rounded outwards to whole days, which holds all that shares a cell of any size with the window."""
        return since // DAY_SECONDS * DAY_SECONDS, -(-until // DAY_SECONDS) * DAY_SECONDS

    def roll(self, now: int) -> bool:
        """Begin with the day of ``now``; False if that is no later day."""
        since = now // DAY_SECONDS * DAY_SECONDS
        if since <= self.since:
            return False
        passed = min(since, self.until)
        for level in self.levels:
            for rows in level.rows(self.since, passed):
                level.masks[rows] = 0
        self.since, self.until = since, since + self.days * DAY_SECONDS
        return True

    def paint(self, position: int, mask: int, since: int, until: int) -> None:
        since, until = max(since, self.since), min(until, self.until)
        if since < until:
            for level in self.levels:
                for rows in level.rows(since, until):
                    column = level.masks[rows, position]
                    if np.bitwise_or.reduce(column) & mask:
                        self._shared[position] = True
                    column |= mask

    def is_shared(self, position: int) -> bool:
        """Whether two that are held on this GPU may have slices in one cell of any level."""
        return bool(self._shared[position])

    def wipe(self, position: int, mask: int, since: int, until: int, others: Sequence[Holding]) -> None:
        """Clear the bits that were painted, but for those that others on the same GPU hold in the same cells."""
        since, until = max(since, self.since), min(until, self.until)
        if since >= until:
            return
        rivals = [other for other in others if other.mask & mask]
        keep = ~self.dtype.type(mask)
        for level in self.levels:
            begin, end = level.outwards(since, until)
            for rows in level.rows(since, until):
                level.masks[rows, position] &= keep
            for other in rivals:
                first, last = max(other.since, begin), min(other.until, end)
                if first < last:
                    for rows in level.rows(first, last):
                        level.masks[rows, position] |= other.mask & mask

    def taken(self, since: int, until: int) -> tuple[Masks, Iterable[int]]:
        """(slices taken on each GPU, positions of GPUs for which that is still to be confirmed)."""
        if since < self.since or until > self.until:
            return np.zeros(self.gpus, self.dtype), range(self.gpus)
        cell = self.cell_seconds
        first, last = since // cell, -(-until // cell)
        if not since % cell and not until % cell:
            return self._or(first, last), ()
        inner_first, inner_last = -(-since // cell), until // cell
        fine = self.levels[0]
        inner = self._or(inner_first, inner_last) if inner_first < inner_last else np.zeros(self.gpus, self.dtype)
        doubt = np.zeros(self.gpus, self.dtype)
        for edge in {first, last - 1} - set(range(inner_first, inner_last)):
            doubt |= fine.masks[edge % len(fine.masks)]
        return inner, np.flatnonzero(doubt & ~inner)

    def sample(self, since: int, until: int, positions: NDArray[np.intp], rows_most: int) -> Masks:
        """At most so many rows of cells, spread evenly over the window: cells x positions."""
        since, until = max(since, self.since), min(until, self.until)
        if since >= until:
            return np.zeros((1, len(positions)), self.dtype)
        first, last = since // self.cell_seconds, -(-until // self.cell_seconds)
        masks = self.levels[0].masks
        cells = np.arange(first, last, -(-(last - first) // rows_most)) % len(masks)
        return masks[cells[:, None], positions]

    def stretch(self, since: int, until: int) -> Masks:
        """The rows of the finest cells that meet the window, as far as the horizon goes: cells x GPUs."""
        since, until = max(since, self.since), min(until, self.until)
        fine = self.levels[0]
        parts = [fine.masks[rows] for rows in fine.rows(since, until)] if since < until else []
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros((0, self.gpus), self.dtype), *parts])

    def look(self, since: int, until: int, begin: int, end: int) -> bytes | None:
        """What is taken in the window, a byte for each of the GPUs begin:end. None unless the window begins and ends
        with cells of the horizon, so that nothing has to be confirmed."""
        cell = self.cell_seconds
        if since % cell or until % cell or since < self.since or until > self.until:
            return None
        first, last = since // cell, until // cell
        row = first % self._count
        past = row + last - first
        if past <= self._count and (last - first) * (end - begin) <= PLAIN_BYTES_MOST:
            masks = self._finest[row:past]
            return _or_over(masks if end - begin == self.gpus else masks[:, begin:end]).tobytes()
        return self._or(first, last, slice(begin, end)).tobytes()

    def beside(self, since: int, until: int, begin: int, end: int) -> tuple[bytes, bytes]:
        """What these GPUs hold in the cell before such a window, and in that after; nothing beyond the horizon."""
        flat, cell, whole = self._flat, self.cell_seconds, self.gpus
        nothing = bytes((end - begin) * self.dtype.itemsize)
        row = (since // cell - 1) % self._count * whole
        before = flat[row + begin : row + end].tobytes() if since > self.since else nothing
        row = until // cell % self._count * whole
        return before, flat[row + begin : row + end].tobytes() if until < self.until else nothing

    def at(self, moment: int) -> Masks:
        """The row of the cell of that moment; what is free there is free at the moment. Nothing beyond the horizon."""
        fine = self.levels[0]
        if not self.since <= moment < self.until:
            return np.zeros(self.gpus, self.dtype)
        return fine.masks[moment // self.cell_seconds % len(fine.masks)]

    def _or(self, first: int, last: int, gpus: slice = slice(None)) -> Masks:
        """The OR of the finest cells first..last, through the coarser levels where that saves enough."""
        fine = self.levels[0]
        count = len(fine.masks[0, gpus])
        if len(self.levels) == 1 or (last - first) * count * self.dtype.itemsize <= PLAIN_BYTES_MOST:
            return fine.or_of(first, last, gpus)
        result = np.zeros(count, self.dtype)
        begin, end = first * self.cell_seconds, last * self.cell_seconds
        for level, coarser in zip(self.levels, [*self.levels[1:], None], strict=True):
            if coarser is None or end - begin < 2 * coarser.seconds:
                result |= level.or_of(begin // level.seconds, end // level.seconds, gpus)
                break
            inner_begin = -(-begin // coarser.seconds) * coarser.seconds
            inner_end = end // coarser.seconds * coarser.seconds
            for one, other in ((begin, inner_begin), (inner_end, end)):
                if one < other:
                    result |= level.or_of(one // level.seconds, other // level.seconds, gpus)
            begin, end = inner_begin, inner_end
        return result


def _blocks(gpus: int) -> tuple[tuple[int, int], ...]:
    """All positions in stretches that grow."""
    found, begin, size = [], 0, FIRST_BLOCK_GPUS
    while begin < gpus:
        found.append((begin, min(begin + size, gpus)))
        begin, size = begin + size, 4 * size
    return tuple(found)


class _Level:
    def __init__(self, seconds: int, masks: Masks) -> None:
        self.seconds = seconds
        self.masks = masks

    def outwards(self, since: int, until: int) -> tuple[int, int]:
        return since // self.seconds * self.seconds, -(-until // self.seconds) * self.seconds

    def rows(self, since: int, until: int) -> tuple[slice, ...]:
        """The rows of the cells that meet the window: one stretch, or two around the end of the ring."""
        count = len(self.masks)
        first, last = since // self.seconds, -(-until // self.seconds)
        begin, length = first % count, last - first
        if begin + length <= count:
            return (slice(begin, begin + length),)
        return slice(begin, count), slice(0, begin + length - count)

    def or_of(self, first: int, last: int, gpus: slice) -> Masks:
        count = len(self.masks)
        begin, length = first % count, last - first
        if begin + length <= count:
            return np.bitwise_or.reduce(self.masks[begin : begin + length, gpus])
        head = np.bitwise_or.reduce(self.masks[begin:, gpus])
        return head | np.bitwise_or.reduce(self.masks[: begin + length - count, gpus])
