"""How busy a simulated device is: the CPU time of its processes, one full core being 100 %."""

import time
from dataclasses import dataclass

from agents.drivers.simulator.processes import process_use

WINDOW_SECONDS = 0.25
TENSOR_SHARE = 0.45
MEMORY_BANDWIDTH_SHARE = 0.30


@dataclass(frozen=True)
class Snapshot:
    """CPU seconds by process at a monotonic time; ``lifetime`` is the mean percentage since the processes began."""

    at: float
    cpu_seconds: dict[int, float]
    lifetime: float


def take_snapshot(pids: tuple[int, ...]) -> Snapshot:
    known = {pid: use for pid in pids if (use := process_use(pid)) is not None}
    lifetime = sum(use.cpu_seconds / use.age_seconds for use in known.values())
    return Snapshot(time.monotonic(), {pid: use.cpu_seconds for pid, use in known.items()}, min(100.0, 100 * lifetime))


def busy_percent(before: Snapshot, after: Snapshot) -> float:
    """Of the time between; a process that began in between counts from its beginning, one that ended not at all."""
    elapsed = after.at - before.at
    if elapsed <= 0:
        return after.lifetime
    spent = sum(seconds - before.cpu_seconds.get(pid, 0.0) for pid, seconds in after.cpu_seconds.items())
    return max(0.0, min(100.0, 100 * spent / elapsed))


class ActivityMeter:
    """The driver's own sampling, for values that are asked for without two samples: a window of a quarter second."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Snapshot, float]] = {}

    def percent(self, device_uuid: str, pids: tuple[int, ...]) -> float:
        before, value = self._last.get(device_uuid, (None, 0.0))
        if before is not None and time.monotonic() - before.at < WINDOW_SECONDS:
            return value
        after = take_snapshot(pids)
        value = after.lifetime if before is None else busy_percent(before, after)
        self._last[device_uuid] = (after, value)
        return value
