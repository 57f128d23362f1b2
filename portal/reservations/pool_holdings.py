"""What is held in a pool as quotas and shares count it: whatever meets a window is found without a walk over all."""

import datetime as dt
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg2.extras import DateTimeTZRange

from portal.reservations.outlook import Holding

FIRST_SLOTS = 256


class Holdings:
    """Leases by key, in slots of three columns: whole seconds from when until when, and whether it is borrowed."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._rows: list[tuple[int, Holding] | None] = []
        self._since: NDArray[np.int64] = np.zeros(FIRST_SLOTS, np.int64)
        self._until: NDArray[np.int64] = np.zeros(FIRST_SLOTS, np.int64)
        self._borrowed: NDArray[np.bool_] = np.zeros(FIRST_SLOTS, np.bool_)

    def __len__(self) -> int:
        return len(self._slots)

    def hold(self, key: int, reservation_id: int, holding: Holding) -> None:
        """What ``key`` held before is let go."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._free.pop() if self._free else self._new_slot()
        self._rows[slot] = (reservation_id, holding)
        self._since[slot] = int(holding.since.timestamp())
        self._until[slot] = _up(holding.until)
        self._borrowed[slot] = holding.borrowed

    def drop(self, key: int) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._rows[slot] = None
            self._since[slot] = self._until[slot] = 0
            self._borrowed[slot] = False
            self._free.append(slot)

    def meeting(self, during: DateTimeTZRange, but: int | None = None) -> Sequence[Holding]:
        """What is held at some time of the window, without what the reservation ``but`` holds."""
        rows = (self._rows[slot] for slot in np.flatnonzero(self._meets(during)))
        return [row[1] for row in rows if row is not None and row[0] != but]

    def anybody_borrows(self, during: DateTimeTZRange) -> bool:
        return bool((self._meets(during) & self._borrowed).any())

    def _meets(self, during: DateTimeTZRange) -> NDArray[np.bool_]:
        since, until = int(during.lower.timestamp()), _up(during.upper)
        meets: NDArray[np.bool_] = (self._since < until) & (self._until > since)
        return meets

    def _new_slot(self) -> int:
        self._rows.append(None)
        count = len(self._rows)
        if count > len(self._since):
            self._since, self._until = (np.concatenate([one, np.zeros_like(one)]) for one in (self._since, self._until))
            self._borrowed = np.concatenate([self._borrowed, np.zeros_like(self._borrowed)])
        return count - 1


def _up(when: dt.datetime) -> int:
    """The first whole second that is not before it."""
    return -int(-when.timestamp() // 1)
