"""The portal's time on this machine: agreed at welcome, then counted on a clock that no one sets."""

import time
from collections.abc import Callable


def seconds_since_boot() -> float:
    """Suspended ones included; no one sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """``now()`` is the portal's time as far as known: the host's clock plus the last agreed offset before the first
    welcome of this run, the portal's own ``now`` plus the seconds since, after it."""

    def __init__(
        self, offset_seconds: float = 0.0, wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = offset_seconds
        self._agreed: tuple[float, float] | None = None

    def now(self) -> float:
        agreed = self._agreed
        if agreed is None:
            return self._wall() + self._offset
        return agreed[0] + self._steady() - agreed[1]

    def agree(self, portal_now: float) -> None:
        """Take the portal's time as of this moment."""
        self._agreed = (portal_now, self._steady())

    @property
    def offset_seconds(self) -> float:
        """How far the portal's time is ahead of the host's clock."""
        return self.now() - self._wall()
