"""Changes to the calendar that are tried: all can be taken back, and in the end all are."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.placement.calendar import Calendar, Row


@dataclass(frozen=True)
class Move:
    """What ``key`` holds goes to the span start:end of another GPU, or of the same, for its same window."""

    key: int
    gpu_id: int
    start: int
    end: int


class Change(NamedTuple):
    """``row`` came to the calendar, or went."""

    row: Row
    came: bool


class Trial:
    """Rows that came are looked up by key in the calendar like any other. ``settled``: keys that have just been given
    their place and are not to be driven from it, though they may be swapped along with all around them. ``counted``:
    names of shapes of which a GPU takes fewer than its free spans would."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self.counted: frozenset[str] = frozenset()
        self.settled: list[int] = []
        self._changes: list[Change] = []

    def put(self, row: Row) -> None:
        self.calendar.put(row)
        self._changes.append(Change(row, True))

    def take(self, key: int) -> Row:
        row = self.calendar.take(key)
        self._changes.append(Change(row, False))
        return row

    def mark(self) -> tuple[int, int]:
        """To come back to by ``undo``."""
        return len(self._changes), len(self.settled)

    def undo(self, mark: tuple[int, int]) -> None:
        changes, settled = mark
        while len(self._changes) > changes:
            change = self._changes.pop()
            if change.came:
                self.calendar.take(change.row.key)
            else:
                self.calendar.put(change.row)
        del self.settled[settled:]

    def moves(self) -> tuple[Move, ...]:
        """What lies elsewhere than before the trial, by key."""
        before: dict[int, Row] = {}
        come: set[int] = set()
        for row, came in self._changes:
            if came and row.key not in before:
                come.add(row.key)
            elif not came and row.key not in come:
                before.setdefault(row.key, row)
        found = []
        for key, was in sorted(before.items()):
            now = self.calendar.rows.get(key)
            if now is not None and (now.position, now.start) != (was.position, was.start):
                found.append(Move(key, self.calendar.gpus[now.position][0], now.start, now.end))
        return tuple(found)


@contextmanager
def trial_of(calendar: Calendar) -> Iterator[Trial]:
    """A trial, of which nothing is left in the calendar afterwards."""
    trial = Trial(calendar)
    start = trial.mark()
    try:
        yield trial
    finally:
        trial.undo(start)
