"""What is there in one pass: read when first asked for, read again after a change, never assumed."""

import time

from agents.containers.contract import Engine, Running
from agents.drivers.contract import GpuDriver, Instance
from agents.groups.sharing import workload_key
from agents.protocol import DesiredLease

_FRESH_SECONDS = 1.0


class Present:
    """The view of driver and engine in a pass. A refusal of either is the caller's to handle.

    Workloads are read anew in each pass. Instances change by our own hand, so between two passes of a busy moment the
    last reading stands for a second; after each change they are read again.
    """

    def __init__(self, driver: GpuDriver, engine: Engine) -> None:
        self._driver = driver
        self._engine = engine
        self._instances: tuple[Instance, ...] | None = None
        self._read_at = 0.0
        self._running: dict[tuple[int, int], Running] | None = None

    def begin_pass(self) -> None:
        self._running = None
        if time.monotonic() - self._read_at > _FRESH_SECONDS:
            self._instances = None

    def instances(self) -> tuple[Instance, ...]:
        if self._instances is None:
            self._instances = self._driver.instances()
            self._read_at = time.monotonic()
        return self._instances

    def running(self) -> dict[tuple[int, int], Running]:
        """Our workloads by lease and attempt."""
        if self._running is None:
            self._running = {(each.lease_id, each.attempt): each for each in self._engine.running()}
        return self._running

    def of(self, lease: DesiredLease) -> Running | None:
        return self.running().get(workload_key(lease))

    def changed(self) -> None:
        """Something was made or destroyed: what was read is old."""
        self._instances = None
        self._running = None

    def on_span(self, lease: DesiredLease) -> list[Instance]:
        """Every instance that touches the lease's slices."""
        return [each for each in self.instances() if touches(each, lease)]


def touches(instance: Instance, lease: DesiredLease) -> bool:
    return (instance.gpu_uuid == lease.gpu_uuid and instance.start < lease.start + lease.size
            and lease.start < instance.start + instance.size)


def is_exactly(instance: Instance, lease: DesiredLease) -> bool:
    """Whether this is the lease's own slice, complete and at exactly its span."""
    return (instance.gpu_uuid == lease.gpu_uuid and instance.start == lease.start and instance.size == lease.size
            and instance.profile_id == lease.profile_id and instance.mig_uuid is not None)
