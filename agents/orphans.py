"""What is there and belongs to no lease: workloads with our label, instances without an owner."""

import logging
from collections.abc import Container

from agents.containers.contract import Engine, EngineError, Running
from agents.drivers.contract import DriverError, GpuDriver, Instance
from agents.journal import State
from agents.leases import EXITED, LeaseBook
from agents.present import Present, touches
from agents.protocol import DesiredLease, WorkloadSpec
from agents.schedule import Phase
from agents.starting import with_holders

log = logging.getLogger(__name__)

_RETRY_SECONDS = 15.0
_GRACE_SECONDS = 30


class OrphanCare:
    """Only acts once a desired document is known: before that, nobody can tell an orphan from a lease."""

    def __init__(self, driver: GpuDriver, engine: Engine, book: LeaseBook, state: State) -> None:
        self._driver = driver
        self._engine = engine
        self._book = book
        self._state = state
        self._retry_at: dict[Instance | str, float] = {}

    def adopt_workloads(self, wanted: dict[int, DesiredLease], present: Present, now: float) -> None:
        """Give every workload with our label a line in the journal; what nobody wants is then withdrawn."""
        for (lease_id, attempt), running in list(present.running().items()):
            progress = self._state.progress.get(lease_id)
            if progress is not None and (progress.lease.attempt == attempt or progress.phase is not Phase.ENDED):
                if progress.lease.attempt != attempt or progress.phase is Phase.ENDED:
                    self._clear(running, present, now)
                continue
            self._adopt(running, wanted.get(lease_id), present, now)

    def _adopt(self, running: Running, lease: DesiredLease | None, present: Present, now: float) -> None:
        try:
            device = (self._engine.device_of(running) or "").partition(",")[0]
            if lease is None or lease.attempt != running.attempt:
                lease = _stand_in(running, device, present, now)
        except (DriverError, EngineError) as refusal:
            log.warning("workload %s: %s", running.name, refusal)
            return
        log.warning("workload %s runs without a line in the journal; it is taken over", running.name)
        progress = self._book.adopt(lease, device, now)
        if not running.alive:
            self._book.stop(progress, EXITED, now)

    def _clear(self, running: Running, present: Present, now: float) -> None:
        """A workload of an attempt that is over: it ends now."""
        if now < self._retry_at.get(running.name, 0.0):
            return
        self._retry_at[running.name] = now + 1.0
        try:
            if running.alive:
                self._engine.kill(running)
            else:
                self._engine.remove(running)
        except EngineError as refusal:
            log.warning("workload %s cannot be cleared: %s", running.name, refusal)
        present.changed()

    def clear_instances(self, present: Present, lost: Container[str], now: float) -> None:
        """Destroy instances of nobody that no process uses. One that is refused is tried again later."""
        held = [progress.lease for progress in self._state.progress.values() if progress.phase is not Phase.ENDED]
        for instance in present.instances():
            owned = instance.gpu_uuid in lost or any(touches(instance, lease) for lease in held)
            if owned or now < self._retry_at.get(instance, 0.0):
                continue
            self._retry_at[instance] = now + _RETRY_SECONDS
            try:
                holders = self._holders(instance)
                if holders:
                    raise DriverError("It belongs to no lease and is in use.", holders=holders)
                self._driver.destroy(instance)
                log.warning("%s belonged to no lease and was destroyed", instance)
            except DriverError as refusal:
                log.warning("%s stays: %s", instance, with_holders(refusal))
            present.changed()

    def _holders(self, instance: Instance) -> tuple[int, ...]:
        if instance.mig_uuid is None:
            return ()
        use = self._driver.use((instance,), ()).get(instance.mig_uuid)
        return (use.pids or ()) if use is not None else ()


def _stand_in(running: Running, device: str, present: Present, now: float) -> DesiredLease:
    """A lease for a workload whose own is not known any more, on the span where it sits, so that it can be ended."""
    place = next((each for each in present.instances() if each.mig_uuid == device), None)
    return DesiredLease(
        lease_id=running.lease_id, reservation_id=0, tenant_id=0, rank=0, ranks=1,
        gpu_uuid=place.gpu_uuid if place else device or "unknown", profile="unknown",
        profile_id=place.profile_id if place else None, start=place.start if place else 0,
        size=place.size if place else 64, starts_at=max(0.0, now - 1), ends_at=now + 10 * _GRACE_SECONDS,
        workload=WorkloadSpec(image="", command=(), grace_seconds=_GRACE_SECONDS), attempt=running.attempt)
