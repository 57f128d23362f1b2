"""Threads of one process take turns at a pool, first come first served, before any of them asks the database.

Who waits here holds no connection and no lock, and what the one before learnt of the pool is known to the next: of many
who want the last slice at once, one per process waits for the pool's lock, and the others learn that it is gone.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class _Turns:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.waiting: deque[threading.Event] = deque()
        self._taken = False

    def take(self, patience_seconds: float) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Event()
            self.waiting.append(mine)
        if mine.wait(patience_seconds):
            return True
        with self._guard:
            if mine.is_set():  # it came in the last moment
                return True
            self.waiting.remove(mine)
            return False

    def pass_on(self) -> None:
        with self._guard:
            if self.waiting:
                self.waiting.popleft().set()
            else:
                self._taken = False


@dataclass
class Turn:
    """``came``: in time. It may end before its block does: what follows the commit is nobody else's to wait for."""

    turns: _Turns
    came: bool
    is_over: bool = False

    def end(self) -> None:
        if self.came and not self.is_over:
            self.is_over = True
            self.turns.pass_on()


_turns: defaultdict[int, _Turns] = defaultdict(_Turns)


@contextmanager
def turn_in(pool_id: int, patience_seconds: float) -> Iterator[Turn]:
    """Lasts as long as the block at most; nobody takes two."""
    turns = _turns[pool_id]
    turn = Turn(turns, turns.take(patience_seconds))
    try:
        yield turn
    finally:
        turn.end()
