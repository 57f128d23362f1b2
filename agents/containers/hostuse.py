"""CPU and memory of a set of processes, from two readings of what they used."""

import time

import psutil

from agents.containers.contract import HostUse


class HostMeter:
    """Remembers the last reading of each workload; the CPU is what was used since."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, dict[int, float]]] = {}

    def measure(self, name: str, pids: tuple[int, ...]) -> HostUse:
        """CPU in percent of one core since the last call for ``name``, None at the first; resident memory in MiB."""
        now = time.monotonic()
        seconds: dict[int, float] = {}
        resident = 0
        for pid in pids:
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                resident += process.memory_info().rss
            except psutil.Error:
                continue
            seconds[pid] = times.user + times.system
        before = self._last.get(name)
        self._last[name] = (now, seconds)
        if not seconds:
            return HostUse()
        return HostUse(_cpu_percent(before, now, seconds), resident >> 20)

    def forget(self, name: str) -> None:
        self._last.pop(name, None)


def _cpu_percent(before: tuple[float, dict[int, float]] | None, now: float, seconds: dict[int, float]) -> float | None:
    if before is None or now <= before[0]:
        return None
    used = sum(max(0.0, value - before[1].get(pid, 0.0)) for pid, value in seconds.items())
    return round(100 * used / (now - before[0]), 1)
