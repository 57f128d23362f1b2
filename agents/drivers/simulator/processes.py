"""The processes that hold a simulated device, found in ``/proc`` by what they were given to see.

Nobody tells the simulator: a process whose environment names a device in ``CUDA_VISIBLE_DEVICES`` or
``NVIDIA_VISIBLE_DEVICES`` holds it, in a container on this machine or outside one.
"""

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass

SCAN_SECONDS = 0.5
_NAMES = (b"CUDA_VISIBLE_DEVICES=", b"NVIDIA_VISIBLE_DEVICES=")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessUse:
    """CPU time since the process began, its age, and resident memory."""

    cpu_seconds: float
    age_seconds: float
    resident_bytes: int


class ProcessTable:
    """Thread-safe. A scan is kept for half a second; a device is given up only after a fresh one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._scanned_at = float("-inf")
        self._holders: dict[str, tuple[int, ...]] = {}

    def holders(self, device_uuid: str, fresh: bool = False) -> tuple[int, ...]:
        """Process ids that hold the device, lowest first."""
        with self._guard:
            now = time.monotonic()
            if fresh or now - self._scanned_at > SCAN_SECONDS:
                self._holders, self._scanned_at = _scan(), now
            return self._holders.get(device_uuid, ())


def _scan() -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        for device in _visible_devices(pid):
            found.setdefault(device, []).append(pid)
    return {device: tuple(pids) for device, pids in found.items()}


def _visible_devices(pid: int) -> set[str]:
    """Devices named in the environment; a process that ended or belongs to somebody else names none."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return set()
    if b"_VISIBLE_DEVICES=" not in environment:
        return set()
    devices: set[str] = set()
    for entry in environment.split(b"\0"):
        for name in _NAMES:
            if entry.startswith(name):
                devices.update(entry[len(name) :].decode(errors="replace").split(","))
    return {device for device in devices if device.startswith(("GPU-", "MIG-"))}


def kill_holders(devices: set[str]) -> None:
    """Nothing outlives a reboot."""
    pids = {pid for device, holders in _scan().items() if device in devices for pid in holders}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def process_use(pid: int) -> ProcessUse | None:
    """None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/uptime", "rb") as file:
            uptime_seconds = float(file.read().split()[0])
    except OSError:
        return None
    cpu_seconds = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    age_seconds = uptime_seconds - int(fields[19]) / _TICKS_PER_SECOND
    return ProcessUse(cpu_seconds, max(age_seconds, 0.01), int(fields[21]) * _PAGE_BYTES)
