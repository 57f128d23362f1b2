"""All that is held, as columns: which of it meets a window is one comparison over all."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scheduler.placement.calendar import Row

FIRST_SLOTS = 256


class Register:
    """A slot for every row. ``cost``: slice-seconds that move with it, infinite where it may not be moved."""

    def __init__(self) -> None:
        self.slot: dict[int, int] = {}
        self._free = list(range(FIRST_SLOTS))[::-1]
        self.key = np.zeros(FIRST_SLOTS, dtype=np.int64)
        self.since = np.zeros(FIRST_SLOTS, dtype=np.int64)
        self.until = np.zeros(FIRST_SLOTS, dtype=np.int64)
        self.position = np.zeros(FIRST_SLOTS, dtype=np.int32)
        self.mask = np.zeros(FIRST_SLOTS, dtype=np.uint64)
        self.cost = np.zeros(FIRST_SLOTS, dtype=np.float64)

    def add(self, row: "Row") -> None:
        if not self._free:
            self._grow()
        slot = self.slot[row.key] = self._free.pop()
        self.key[slot] = row.key
        self.since[slot] = row.since
        self.until[slot] = row.until
        self.position[slot] = row.position
        self.mask[slot] = row.mask
        self.cost[slot] = row.volume if row.movable else np.inf

    def remove(self, key: int) -> None:
        """An empty slot ends before all time, so that it meets no window."""
        slot = self.slot.pop(key)
        self.until[slot] = self.since[slot] = 0
        self._free.append(slot)

    def meeting(self, since: int, until: int) -> NDArray[np.intp]:
        """Slots of what is held at any moment between the two."""
        return np.flatnonzero((self.since < until) & (self.until > since))

    def _grow(self) -> None:
        count = len(self.key)
        for name in ("key", "since", "until", "position", "mask", "cost"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self._free = list(range(count, 2 * count))[::-1]
