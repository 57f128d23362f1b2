"""Late binding: what is planned moves so that what would not fit does, and no promise is broken.

The plan that stands is the witness: whatever is tried is tried on the calendar and taken back, and what is returned is
a plan in which all that was held is held for its window. What may not move stays where it is.
"""

import time
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from scheduler.placement.calendar import Calendar, Row
from scheduler.placement.capacity import capacity_of
from scheduler.placement.displacing import Mover
from scheduler.placement.geometry import MAINTENANCE, Placement, Shape, Window
from scheduler.placement.placing import place
from scheduler.placement.trial import Move, trial_of

CHAIN_DEPTH = 1
STEPS = 40
# Keys of ranks that are being placed; below those of leases and of closures.
FIRST_NEW_KEY = -(1 << 62)


@dataclass(frozen=True)
class Admission:
    """Where the ranks go, and what moves for them; ``moves`` are to be applied all at once, and before."""

    placements: tuple[Placement, ...]
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class Refused:
    """``full_at``: the first moment (seconds since 1970) from which on more is asked for than all GPUs can hold however
    it were packed; None if it could be packed, but not by the moves that were tried."""

    full_at: int | None = None
    held: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return False


def admit(
    shape: Shape,
    ranks: int,
    calendar: Calendar,
    window: Window,
    shapes: Iterable[Shape],
    *,
    deadline_seconds: float,
    only_nodes: Collection[int] | None = None,
    without: Collection[int] = (),
) -> Admission | Refused:
    """Places for all ranks, with the fewest moves found of what is movable; the calendar is left as it was.

    ``deadline_seconds``: so long it may take. What is tried first does not depend on it, so that a plan can be replayed
    wherever there is enough time. ``only_nodes`` binds the ranks, not what moves for them. ``without``: keys that are
    looked away from.
    """
    known, latest = tuple(shapes), time.monotonic() + deadline_seconds
    with trial_of(calendar) as trial:
        for key in without:
            if key in calendar.rows:
                trial.take(key)
        placements = place(shape, ranks, calendar, window, known, only_nodes=only_nodes)
        if placements or ranks < 1:
            return Admission(placements) if placements else Refused()
        refusal = full(shape, ranks, calendar, window, known)
        if refusal is not None:
            return refusal
        start = trial.mark()
        mover = Mover(trial, known, STEPS, lambda: time.monotonic() < latest)
        nodes = None
        if only_nodes is not None:
            nodes = np.array([node_id in only_nodes for _gpu, node_id, _index in calendar.gpus], dtype=bool)
        new = _new_rows(shape, ranks, window, movable=nodes is None)
        if shape not in known or not all(mover.settle(row, CHAIN_DEPTH, nodes) for row in new):
            trial.undo(start)
            return Refused()
        moves = trial.moves()
        return Admission(_placements([calendar.rows[row.key] for row in new], calendar), moves)


def improve(
    calendar: Calendar, shapes: Iterable[Shape], *, deadline_seconds: float, leases_most: int = 0
) -> tuple[Move, ...]:
    """Moves after which more would fit: what is planned is taken up, one lease after the other, and put where it would
    go if it came now. Begins where the last call on this calendar ended; the calendar is left as it was.

    ``leases_most``: looks at so many at most; 0 for all.
    """
    known = tuple(shapes)
    names = {shape.name for shape in known}
    latest = time.monotonic() + deadline_seconds
    keys = sorted(key for key, row in calendar.rows.items() if row.movable and row.shape in names)
    begin = bisect_right(keys, calendar.improved_until)
    with trial_of(calendar) as trial:
        mover = Mover(trial, known, 0, lambda: time.monotonic() < latest)
        for key in islice(chain(keys[begin:], keys[:begin]), leases_most or None):
            if not mover.in_time():
                break
            row = trial.take(key)
            if not mover.settle(row, 0):
                trial.put(row)
            calendar.improved_until = key
        return trial.moves()


def full(shape: Shape, ranks: int, calendar: Calendar, window: Window, shapes: tuple[Shape, ...]) -> Refused | None:
    """The proof that the ranks cannot fit, from the first cell in which they do not; None if there is none."""
    capacity = capacity_of(shapes, calendar.slices)
    names = [known.name for known in shapes]
    since, until = max(window.start, calendar.cells.since), min(window.end, calendar.cells.until)
    first, last = calendar.census.inwards(since, until)
    if first >= last or shape.name not in names:
        return None
    counts = calendar.census.of(names, first, last)
    rows, where = np.unique(counts, axis=0, return_inverse=True)
    asked = rows.copy()
    asked[:, names.index(shape.name)] += ranks
    closed = closed_gpus(calendar, first, last)
    least = np.full(len(rows), len(calendar.gpus))
    np.minimum.at(least, where.ravel(), len(calendar.gpus) - closed)
    crowded = np.flatnonzero(~capacity.fit_rows(asked, least)[where.ravel()])
    for cell in crowded.tolist():
        gpus = len(calendar.gpus) - int(closed[cell])
        if not capacity.fits(asked[where.ravel()[cell]].tolist(), gpus):
            held = dict(zip(names, counts[cell].tolist(), strict=True))
            return Refused((first + cell) * calendar.cells.cell_seconds, held)
    return None


def closed_gpus(calendar: Calendar, first: int, last: int) -> np.ndarray:
    """How many GPUs are closed in each of these cells, and hold nothing else there."""
    cell = calendar.cells.cell_seconds
    closed = np.zeros(last - first, dtype=np.int64)
    if MAINTENANCE not in calendar.census.column or not calendar.census.of([MAINTENANCE], first, last).any():
        return closed
    register = calendar.register
    slots = register.meeting(first * cell, last * cell)
    rows = [calendar.rows[key] for key in register.key[slots].tolist()]
    shut = {row.position for row in rows if row.shape == MAINTENANCE}
    for position in sorted(shut):
        state = np.zeros(last - first, dtype=bool)
        for row in (row for row in rows if row.position == position):
            if row.shape == MAINTENANCE and row.end - row.start == calendar.slices:
                begin, end = calendar.census.inwards(row.since, row.until)
                state[max(begin - first, 0) : max(end - first, 0)] = True
        for row in (row for row in rows if row.position == position and row.shape != MAINTENANCE):
            begin, end = row.since // cell - first, -(-row.until // cell) - first
            state[max(begin, 0) : max(end, 0)] = False
        closed += state
    return closed


def _new_rows(shape: Shape, ranks: int, window: Window, *, movable: bool) -> list[Row]:
    return [
        Row(FIRST_NEW_KEY + rank, 0, 0, 0, shape.size, window.start, window.end, shape.name, movable)
        for rank in range(ranks)
    ]


def _placements(rows: list[Row], calendar: Calendar) -> tuple[Placement, ...]:
    in_order = sorted(rows, key=lambda row: (row.position, row.start))
    return tuple(
        Placement(rank, calendar.gpus[row.position][0], row.start, row.end) for rank, row in enumerate(in_order)
    )
