"""A driver that may hang, kept outside the threads that must go on."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from agents.drivers.contract import DeviceUse, DriverError, GpuDriver, HealthEvent, Instance
from agents.protocol import GpuFact, GpuSample

Answer = TypeVar("Answer")


class PatientDriver:
    """The same driver with a time limit: each call runs in a thread of its own and the caller waits no longer than
    ``limit_seconds``. While a call hangs, further ones are refused at once, so that at most one thread is ever lost."""

    def __init__(self, driver: GpuDriver, limit_seconds: float) -> None:
        self._driver = driver
        self._limit_seconds = limit_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="driver")
        self._hanging: Future[Any] | None = None
        self._good_at = time.monotonic()

    def probe_age_seconds(self) -> float:
        """How long ago the driver last gave a good answer."""
        return time.monotonic() - self._good_at

    def versions(self) -> str:
        return self._ask(self._driver.versions)

    def inventory(self) -> tuple[GpuFact, ...]:
        return self._ask(self._driver.inventory)

    def instances(self) -> tuple[Instance, ...]:
        return self._ask(self._driver.instances)

    def create(self, gpu_uuid: str, profile_id: int, start: int, size: int) -> Instance:
        return self._ask(lambda: self._driver.create(gpu_uuid, profile_id, start, size))

    def destroy(self, instance: Instance) -> None:
        self._ask(lambda: self._driver.destroy(instance))

    def use(self, instances: tuple[Instance, ...], whole: tuple[str, ...]) -> dict[str, DeviceUse]:
        return self._ask(lambda: self._driver.use(instances, whole))

    def gpu_samples(self) -> tuple[GpuSample, ...]:
        return self._ask(self._driver.gpu_samples)

    def health_events(self) -> tuple[HealthEvent, ...]:
        return self._ask(self._driver.health_events)

    def close(self) -> None:
        """Let go of the driver, unless a call still hangs in it."""
        hanging = self._hanging
        self._thread.shutdown(wait=False, cancel_futures=True)
        if hanging is None or hanging.done():
            self._driver.close()

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        if self._hanging is not None and not self._hanging.done():
            raise DriverError("The driver still hangs in an earlier call.")
        future = self._thread.submit(call)
        self._hanging = future
        try:
            answer = future.result(self._limit_seconds)
        except TimeoutError as error:
            raise DriverError(f"The driver did not answer within {self._limit_seconds:g} s.") from error
        self._good_at = time.monotonic()
        return answer
