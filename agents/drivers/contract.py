"""What the agent asks of a GPU driver: read, create, destroy, measure. Nothing above this file knows NVML."""

from dataclasses import dataclass
from typing import Protocol

from agents.protocol import GpuFact, GpuSample


class DriverError(Exception):
    """The driver refused or failed; ``code`` is NVML's number, ``holders`` the processes that hold the device."""

    def __init__(self, text: str, code: int = 0, holders: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.code = code
        self.holders = holders


@dataclass(frozen=True, order=True)
class Instance:
    """A GPU instance at its span. ``mig_uuid`` is None while it has no compute instance: half made, to be cleared."""

    gpu_uuid: str
    start: int
    size: int
    profile_id: int
    mig_uuid: str | None = None


@dataclass(frozen=True)
class DeviceUse:
    """What a MIG device or a whole GPU is doing now; None is not measurable. Percentages are of that device."""

    utilization: float | None = None
    tensor: float | None = None
    memory_bandwidth: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    power_watts: float | None = None
    pids: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HealthEvent:
    """An XID: ``start`` is None when the whole GPU is meant."""

    gpu_uuid: str
    xid: int
    start: int | None = None


class GpuDriver(Protocol):
    """Thread-safe. Every call may raise :class:`DriverError`; a lost GPU never hides the others."""

    def versions(self) -> str:
        """The driver's version."""

    def inventory(self) -> tuple[GpuFact, ...]:
        """Every device with its legal profiles; a lost one comes with ``healthy=False`` and the last known facts."""

    def instances(self) -> tuple[Instance, ...]:
        """Every GPU instance on every device, half-made ones too. A device that cannot be read keeps those last read:
        a slice is free only when the driver shows it free."""

    def create(self, gpu_uuid: str, profile_id: int, start: int, size: int) -> Instance:
        """Make a GPU instance at exactly this span and one compute instance that fills it; read back. On failure
        nothing half made stays behind, or the next ``instances()`` shows it."""

    def destroy(self, instance: Instance) -> None:
        """Compute instances first, then the GPU instance; read back. IN_USE names the processes that hold it. What is
        not there any more is no error."""

    def use(self, instances: tuple[Instance, ...], whole: tuple[str, ...]) -> dict[str, DeviceUse]:
        """Use by MIG UUID for ``instances`` and by GPU UUID for ``whole``, each of them. Percentages are means since
        the last call that asked for the device; where they come from samples the first call has none."""

    def gpu_samples(self) -> tuple[GpuSample, ...]:
        """Board-level values of every device."""

    def health_events(self) -> tuple[HealthEvent, ...]:
        """XID events since the last call."""

    def close(self) -> None: ...
