"""Room for a whole window out of two GPUs that each have it for a part: they swap what they hold from some moment on.

Where one GPU has a span free in the first part of a window and another in the rest, everything that the two hold from
the seam on may change places, slice by slice: every lease keeps its start and its window. What must go along is found
by closure: a larger lease takes its other slices with it, a longer one its later time, until nothing lies across.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.placement.calendar import Row
from scheduler.placement.geometry import span_mask
from scheduler.placement.span_tables import SpanTable
from scheduler.placement.trial import Trial

# GPUs that reach furthest into the window from either end, pairs of them, and seams of a pair that are tried.
GPUS_EACH = 4
PAIRS_MOST = 8
SEAMS_MOST = 6
ROWS_MOST = 16
# So few may move that nothing better is looked for.
FEW_ROWS = 3
# Nothing is looked at beyond so much time before and after the window.
FAR_SECONDS = 2 * 86400


@dataclass(frozen=True)
class Swap:
    """These rows, all of the two GPUs, change sides; then the ``start`` of the GPU ``into`` is free for the window."""

    rows: tuple[Row, ...]
    one: int
    other: int
    into: int
    start: int


def find_swap(trial: Trial, table: SpanTable, since: int, until: int, enough: int = FEW_ROWS) -> Swap | None:
    """The one of those tried that moves fewest, or None; the first that moves no more than ``enough`` will do."""
    best: Swap | None = None
    for one, other, start in _pairs(trial, table, since, until):
        best = _better(best, _swap_of(trial, one, other, start, table.shape.size, since, until))
        if best is not None and len(best.rows) <= enough:
            break
    return best


def apply_swap(trial: Trial, swap: Swap) -> None:
    taken = [trial.take(row.key) for row in swap.rows]
    for row in taken:
        trial.put(row._replace(position=swap.other if row.position == swap.one else swap.one))


def _pairs(trial: Trial, table: SpanTable, since: int, until: int) -> Iterator[tuple[int, int, int]]:
    """(GPU that is free at first, GPU that is free at last, start), those that overlap least first."""
    cells = trial.calendar.cells
    window = cells.stretch(since, until)
    length = len(window)
    if not length:
        return
    taken = (window[None] & np.array(table.masks, dtype=window.dtype)[:, None, None]) != 0
    reaches = taken.argmax(axis=1)
    rests = length - taken[:, ::-1].argmax(axis=1)
    # With a span that is free throughout there is nothing to swap; with none at some moment nothing that helps.
    hopeful = taken.any(axis=1).all(axis=1) & ~taken.all(axis=2).any(axis=1)
    found: list[tuple[int, int, int, int]] = []
    for index in np.flatnonzero(hopeful).tolist():
        reach, rest = reaches[index].tolist(), rests[index].tolist()
        firsts = np.argsort(-reaches[index], kind="stable")[:GPUS_EACH].tolist()
        lasts = np.argsort(rests[index], kind="stable")[:GPUS_EACH].tolist()
        found += [
            (rest[last] - reach[first], first, last, table.starts[index])
            for first in firsts
            for last in lasts
            if first != last and rest[last] <= reach[first]
        ]
    for _slack, one, other, start in sorted(found)[:PAIRS_MOST]:
        yield one, other, start


def _swap_of(trial: Trial, one: int, other: int, start: int, size: int, since: int, until: int) -> Swap | None:
    """The span is free on ``one`` in the first part of the window and on ``other`` in the rest."""
    calendar = trial.calendar
    mask = span_mask(start, size)
    on_one, on_other = (
        list(calendar.rows_on(position, since - FAR_SECONDS, until + FAR_SECONDS)) for position in (one, other)
    )
    high = min((row.since for row in on_one if row.mask & mask and row.touches(since, until)), default=until)
    low = max((row.until for row in on_other if row.mask & mask and row.touches(since, until)), default=since)
    rows = on_one + on_other
    limits = since - FAR_SECONDS, until + FAR_SECONDS
    best: Swap | None = None
    for seam in _seams(rows, max(low, since), min(high, until)):
        later = _closure(trial, rows, mask, (seam, until), limits)
        if later is not None:
            best = _better(best, Swap(later, one, other, one, start))
        earlier = _closure(trial, rows, mask, (seam, since), limits)
        if earlier is not None:
            best = _better(best, Swap(earlier, one, other, other, start))
    return best


def _better(best: Swap | None, found: Swap | None) -> Swap | None:
    return found if found is not None and (best is None or len(found.rows) < len(best.rows)) else best


def _seams(rows: Sequence[Row], low: int, high: int) -> list[int]:
    if low > high:
        return []
    edges = {moment for row in rows for moment in (row.since, row.until) if low < moment < high}
    return sorted({low, high}) + sorted(edges)[: SEAMS_MOST - 2]


def _closure(
    trial: Trial, rows: Sequence[Row], mask: int, stretch: tuple[int, int], limits: tuple[int, int]
) -> tuple[Row, ...] | None:
    """What must change sides so that these slices do from the seam, where the stretch begins, to its end, which may lie
    before it; None if something lies across the seam, may not move, reaches beyond the limits, or if it is too much."""
    seam, end = stretch
    forward = end > seam
    inside: list[Row] = []
    rest = [row for row in rows if (row.until > seam if forward else row.since < seam)]
    while True:
        begin, finish = (seam, end) if forward else (end, seam)
        hit = [row for row in rest if row.mask & mask and row.since < finish and begin < row.until]
        if not hit:
            return tuple(inside)
        inside += hit
        if len(inside) > ROWS_MOST:
            return None
        for row in hit:
            if not row.movable or row.since < seam < row.until or row.shape in trial.counted:
                return None
            mask |= row.mask
            end = max(end, row.until) if forward else min(end, row.since)
        if not limits[0] <= end <= limits[1]:
            # What else is held out there is not among the rows, and would be met unseen.
            return None
        chosen = {row.key for row in hit}
        rest = [row for row in rest if row.key not in chosen]
