"""Which GPUs there are and which are not well: the driver's own word, fatal XIDs, spans that cannot be freed."""

import logging

import msgspec

from agents.drivers.contract import GpuDriver, HealthEvent
from agents.journal import State
from agents.leases import stuck
from agents.protocol import GpuFact

log = logging.getLogger(__name__)

_REFRESH_SECONDS = 5.0
_OF_APPLICATIONS = frozenset({13, 31, 43, 45, 68, 109})


class GpuWatch:
    """Reads the inventory now and then, and adds what this node knows itself."""

    def __init__(self, driver: GpuDriver, state: State) -> None:
        self._driver = driver
        self._state = state
        self._facts: tuple[GpuFact, ...] = ()
        self._read_at: float | None = None
        self.gpus: tuple[GpuFact, ...] = ()
        self.lost: dict[str, str] = {}

    def refresh(self, now: float) -> None:
        """Bring ``gpus`` and ``lost`` up to date; the driver is asked at most every few seconds unless an XID came."""
        events = self._driver.health_events()
        for event in events:
            self._note(event)
        if events or self._read_at is None or not 0 <= now - self._read_at < _REFRESH_SECONDS:
            self._facts = self._driver.inventory()
            self._read_at = now
            if not self._facts:
                log.warning("the driver shows no GPU on this machine")
        self.lost = {gpu.uuid: gpu.fault or "The GPU is lost." for gpu in self._facts if not gpu.healthy}
        self.gpus = tuple(self._judged(gpu, now) for gpu in self._facts)

    def _note(self, event: HealthEvent) -> None:
        if event.xid in _OF_APPLICATIONS:
            log.info("GPU %s: XID %s of a workload", event.gpu_uuid, event.xid)
            return
        log.error("GPU %s: XID %s", event.gpu_uuid, event.xid)
        self._state.faults[event.gpu_uuid] = f"The driver reported XID {event.xid}."

    def _judged(self, gpu: GpuFact, now: float) -> GpuFact:
        reasons = [gpu.fault] if not gpu.healthy else []
        if gpu.uuid in self._state.faults:
            reasons.append(self._state.faults[gpu.uuid])
        reasons += [
            f"Lease {progress.lease.lease_id} cannot be freed: {progress.hindrance}"
            for progress in self._state.progress.values()
            if progress.lease.gpu_uuid == gpu.uuid and stuck(progress, now)]
        if not reasons:
            return gpu
        return msgspec.structs.replace(gpu, healthy=False, fault=" ".join(reasons)[:4096])
