"""What the devices and the workloads do now, once a second. What cannot be measured stays None."""

import logging
from collections.abc import Iterable

from agents.complaints import Complaints
from agents.containers.contract import Engine, EngineError, HostUse, Running
from agents.drivers.contract import DeviceUse, DriverError, GpuDriver, Instance
from agents.groups.sharing import has_own_workload, workload_key
from agents.journal import Progress
from agents.protocol import GpuSample, LeaseSample, Samples

log = logging.getLogger(__name__)


class Telemetry:
    """Owned by one thread of its own. ``ended`` after a measurement: active leases whose workload is gone."""

    def __init__(self, driver: GpuDriver, engine: Engine) -> None:
        self._driver = driver
        self._engine = engine
        self._complaints = Complaints(log)
        self.ended: frozenset[int] = frozenset()

    def measure(self, active: Iterable[Progress], now: float) -> Samples:
        """Never raises for a driver or an engine: their values are then not measurable."""
        leases = tuple(active)
        running = self._running()
        if running is not None:
            self.ended = frozenset(each.lease.lease_id for each in leases if not _lives(each, running))
        use = self._use(leases)
        samples = tuple(self._lease_sample(each, use, running or {}) for each in leases)
        return Samples(at=now, gpus=self._boards(), leases=samples)

    def _running(self) -> dict[tuple[int, int], Running] | None:
        try:
            return {(each.lease_id, each.attempt): each for each in self._engine.running()}
        except EngineError as refusal:
            self._complaints.say(f"not measurable: the engine: {refusal}")
            return None

    def _boards(self) -> tuple[GpuSample, ...]:
        try:
            return self._driver.gpu_samples()
        except DriverError as refusal:
            self._complaints.say(f"not measurable: boards: {refusal}")
            return ()

    def _use(self, leases: tuple[Progress, ...]) -> dict[str, DeviceUse]:
        instances = tuple(
            Instance(each.lease.gpu_uuid, each.lease.start, each.lease.size, each.lease.profile_id, each.device)
            for each in leases if each.lease.profile_id is not None)
        whole = tuple(each.lease.gpu_uuid for each in leases if each.lease.profile_id is None)
        if not leases:
            return {}
        try:
            return self._driver.use(instances, whole)
        except DriverError as refusal:
            self._complaints.say(f"not measurable: use: {refusal}")
            return {}

    def _lease_sample(
        self, progress: Progress, use: dict[str, DeviceUse], running: dict[tuple[int, int], Running]
    ) -> LeaseSample:
        device = use.get(progress.device, DeviceUse())
        workload = running.get(workload_key(progress.lease))
        host = self._host_use(workload) if has_own_workload(progress.lease) else HostUse()
        pids = device.pids if device.pids is not None else (workload.pids if workload else None)
        return LeaseSample(
            lease_id=progress.lease.lease_id, utilization=_percent(device.utilization), tensor=_percent(device.tensor),
            memory_bandwidth=_percent(device.memory_bandwidth), memory_used_mib=device.memory_used_mib,
            memory_total_mib=device.memory_total_mib, power_watts=device.power_watts, cpu_percent=host.cpu_percent,
            host_memory_mib=host.memory_mib, processes=None if pids is None else len(pids))

    def _host_use(self, workload: Running | None) -> HostUse:
        if workload is None or not workload.alive:
            return HostUse()
        try:
            return self._engine.host_use(workload)
        except EngineError as refusal:
            self._complaints.say(f"not measurable: workload {workload.name}: {refusal}")
            return HostUse()


def _lives(progress: Progress, running: dict[tuple[int, int], Running]) -> bool:
    workload = running.get(workload_key(progress.lease))
    return workload is not None and workload.alive


def _percent(value: float | None) -> float | None:
    return None if value is None else min(100.0, max(0.0, value))
