"""Bringing a lease up: the instance at exactly its span, the device spec, the workload; each read back."""

import logging
from typing import Protocol

from agents.containers.contract import Engine, EngineError, WorkloadRefused
from agents.drivers.contract import DriverError, GpuDriver
from agents.groups.sharing import devices_for
from agents.journal import Progress
from agents.leases import EXITED, LeaseBook
from agents.present import Present, is_exactly
from agents.protocol import DesiredLease

log = logging.getLogger(__name__)


class DeviceSpec(Protocol):
    """Where an engine finds devices by name: the CDI spec, or nothing for plain processes."""

    def ensure(self, devices: tuple[str, ...]) -> None:
        """Every device can be handed over when this returns; raises EngineError with the generator's own words."""


class NoDeviceSpec:
    """For an engine that hands devices over by itself."""

    def ensure(self, devices: tuple[str, ...]) -> None:
        return None


class Starter:
    def __init__(self, driver: GpuDriver, engine: Engine, spec: DeviceSpec, book: LeaseBook) -> None:
        self._driver = driver
        self._engine = engine
        self._spec = spec
        self._book = book

    def bring_up(self, progress: Progress, present: Present, now: float) -> None:
        """Start the lease, or note why not and when to try again. Never raises for a driver or an engine; an engine
        that does not answer is noticed before the device is touched."""
        lease = progress.lease
        try:
            present.of(lease)
            device = self._device_for(lease, present)
            self._start(progress, device, present, now)
        except WorkloadRefused as refusal:
            self._book.retry_start(progress, str(refusal), True, now)
        except DriverError as refusal:
            self._book.retry_start(progress, with_holders(refusal), False, now)
        except (EngineError, OSError) as refusal:
            self._book.retry_start(progress, str(refusal), False, now)
        finally:
            present.changed()

    def _device_for(self, lease: DesiredLease, present: Present) -> str:
        """The MIG UUID of the lease's slice, made now where it is missing; the GPU's own UUID with MIG off."""
        if lease.profile_id is None:
            return lease.gpu_uuid
        for instance in present.on_span(lease):
            if is_exactly(instance, lease) and instance.mig_uuid is not None:
                return instance.mig_uuid
            log.warning("lease %s: %s is in the way and goes", lease.lease_id, instance)
            self._driver.destroy(instance)
        self._driver.create(lease.gpu_uuid, lease.profile_id, lease.start, lease.size)
        present.changed()
        for instance in present.on_span(lease):
            if is_exactly(instance, lease) and instance.mig_uuid is not None:
                return instance.mig_uuid
        raise DriverError("The driver reported success, yet the slice is not there when read back.")

    def _start(self, progress: Progress, device: str, present: Present, now: float) -> None:
        lease = progress.lease
        leftover = present.of(lease)
        if leftover is not None and not leftover.alive:
            self._engine.remove(leftover)
        progress.device = device
        others = (each.mig_uuid for each in present.instances())
        given = devices_for(lease, device)
        self._spec.ensure(tuple(sorted({*given.split(","), *(uuid for uuid in others if uuid is not None)})))
        running = self._engine.start(lease, given)
        got = self._engine.device_of(running)
        if got == given:
            self._book.activate(progress, device, now)
            return
        present.changed()
        again = present.of(lease)
        if got is None and again is not None and (again.ending or not again.alive):
            self._book.stop(progress, EXITED, now)
            return
        self._engine.kill(running)
        raise EngineError(f"The workload was given {got or 'no device'} instead of {given}; it was stopped.")


def with_holders(refusal: DriverError) -> str:
    """The driver's words and the processes that hold the device, for a person."""
    text = str(refusal)
    unnamed = [str(pid) for pid in refusal.holders if str(pid) not in text]
    return f"{text} Held by process {', '.join(unnamed)}." if unnamed else text
