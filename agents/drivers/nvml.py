"""The GPU driver through NVML: the same code on a DGX and over the simulated library."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pynvml

from agents.drivers.contract import DeviceUse, DriverError, HealthEvent, Instance
from agents.drivers.nvml_errors import as_driver_error
from agents.drivers.nvml_events import EventWatch
from agents.drivers.nvml_gpus import GpuRegister
from agents.drivers.nvml_metrics import (
    GpmSampler,
    board_sample,
    measured,
    use_of_gpu,
    use_of_instance,
)
from agents.drivers.nvml_mig import (
    Berth,
    FoundInstance,
    clear_instance,
    fill_instance,
    find_instances,
    make_instance,
    why_no_room,
)
from agents.protocol import GpuFact, GpuSample

log = logging.getLogger(__name__)

# Trouble of one device, which must not hide what the others say.
DEVICE_TROUBLE = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_UNKNOWN,
)


class NvmlDriver:
    """Implements :class:`agents.drivers.contract.GpuDriver`. GPUs are addressed by UUID only. One lock for all calls:
    a sample must not be taken of an instance between letting go of it and clearing it."""

    def __init__(self, open_library: Callable[[], None] | None = None) -> None:
        """``open_library`` puts another library under pynvml first. Raises DriverError when NVML cannot start; the
        caller tries again later."""
        self._lock = threading.RLock()
        self._gpus = GpuRegister()
        self._gpm = GpmSampler()
        self._events = EventWatch()
        self._last_instances: dict[str, tuple[Instance, ...]] = {}
        if open_library is not None:
            open_library()
        with as_driver_error("Starting NVML"):
            pynvml.nvmlInit()
        try:
            self.inventory()
        except DriverError:
            pynvml.nvmlShutdown()
            raise

    def versions(self) -> str:
        with self._lock, as_driver_error("Reading the driver's version"):
            return pynvml.nvmlSystemGetDriverVersion()

    def inventory(self) -> tuple[GpuFact, ...]:
        with self._lock:
            facts = self._gpus.read()
            for fact in facts:
                if fact.healthy:
                    self._events.watch(fact.uuid)
            return facts

    def instances(self) -> tuple[Instance, ...]:
        """A GPU that cannot be read keeps the instances last read: silence is not freedom."""
        with self._lock:
            found: list[Instance] = []
            for fact in self.inventory():
                if fact.healthy:
                    self._last_instances[fact.uuid] = self._instances_on(fact)
                found += self._last_instances.get(fact.uuid, ())
            return tuple(sorted(found, key=lambda known: (known.gpu_uuid, known.start)))

    def create(self, gpu_uuid: str, profile_id: int, start: int, size: int) -> Instance:
        with self._lock:
            berth = Berth(gpu_uuid, self._gpus.shape(gpu_uuid, profile_id), start, size)
            with as_driver_error(f"Making {berth}"):
                gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            made_id: int | None = None
            try:
                with as_driver_error(f"Making {berth}"):
                    handle = make_instance(gpu, berth)
                    made_id = pynvml.nvmlGpuInstanceGetInfo(handle).id
                    fill_instance(handle, berth.shape)
                return self._read_back(gpu, berth)
            except DriverError as error:
                raise self._explained(error, gpu, berth, made_id) from error

    def destroy(self, instance: Instance) -> None:
        """An instance that is not there any more is no error."""
        with self._lock:
            doing = f"Clearing slices {instance.start} to {instance.start + instance.size}"
            with as_driver_error(doing):
                gpu = pynvml.nvmlDeviceGetHandleByUUID(instance.gpu_uuid)
                found = self._found_at(gpu, instance)
                if found is None:
                    return
                self._gpm.drop((instance.gpu_uuid, found.id))
                clear_instance(found)
                if self._found_at(gpu, instance) is not None:
                    raise DriverError(f"{doing}: the driver reported success, but the GPU instance is still there.")
                left = self._last_instances.get(instance.gpu_uuid, ())
                self._last_instances[instance.gpu_uuid] = tuple(each for each in left if each.start != instance.start)

    def use(self, instances: tuple[Instance, ...], whole: tuple[str, ...]) -> dict[str, DeviceUse]:
        """A device that cannot be reached has a use of which nothing is measurable."""
        with self._lock:
            uses: dict[str, DeviceUse] = {}
            for instance in instances:
                if instance.mig_uuid is not None:
                    uses[instance.mig_uuid] = self._use_of_instance(instance.gpu_uuid, instance.mig_uuid)
            for uuid in whole:
                gpu = _handle(uuid)
                uses[uuid] = DeviceUse() if gpu is None else use_of_gpu(gpu, uuid, self._gpm)
            return uses

    def gpu_samples(self) -> tuple[GpuSample, ...]:
        with self._lock:
            handles = ((fact.uuid, _handle(fact.uuid)) for fact in self._gpus.known())
            return tuple(GpuSample(uuid) if gpu is None else board_sample(gpu, uuid) for uuid, gpu in handles)

    def health_events(self) -> tuple[HealthEvent, ...]:
        with self._lock:
            return self._events.read()

    def close(self) -> None:
        with self._lock, as_driver_error("Closing NVML"):
            self._gpm.close()
            self._events.close()
            pynvml.nvmlShutdown()

    def _instances_on(self, fact: GpuFact) -> tuple[Instance, ...]:
        if not fact.mig_enabled:
            return ()
        try:
            gpu = pynvml.nvmlDeviceGetHandleByUUID(fact.uuid)
            found = find_instances(gpu, self._gpus.shapes(fact.uuid))
            self._gpm.keep_only(fact.uuid, {known.id for known in found})
            for known in found:
                self._events.remember(fact.uuid, known.id, known.start)
            return tuple(known.as_instance(fact.uuid) for known in found)
        except pynvml.NVMLError as error:
            if error.value not in DEVICE_TROUBLE:
                raise DriverError(f"Reading the instances of {fact.uuid}: {error}", error.value) from error
            log.warning("instances of %s cannot be read: %s", fact.uuid, error)
            return self._last_instances.get(fact.uuid, ())

    def _found_at(self, gpu: Any, instance: Instance) -> FoundInstance | None:
        wanted = (instance.profile_id, instance.start, instance.size)
        for found in find_instances(gpu, self._gpus.shapes(instance.gpu_uuid)):
            if (found.profile_id, found.start, found.size) == wanted:
                return found
        return None

    def _read_back(self, gpu: Any, berth: Berth) -> Instance:
        """What was made, as the driver shows it now; its word that it succeeded is not enough."""
        wanted = Instance(berth.gpu_uuid, berth.start, berth.size, berth.shape.profile_id)
        with as_driver_error(f"Reading back {berth}"):
            found = self._found_at(gpu, wanted)
            made = None if found is None else found.as_instance(berth.gpu_uuid)
        if found is None or made is None or made.mig_uuid is None:
            raise DriverError(f"Making {berth}: the driver reported success, but there is no such MIG device.")
        self._events.remember(berth.gpu_uuid, found.id, found.start)
        self._last_instances[berth.gpu_uuid] = (*self._last_instances.get(berth.gpu_uuid, ()), made)
        return made

    def _explained(self, error: DriverError, gpu: Any, berth: Berth, made_id: int | None) -> DriverError:
        """Clears what the failure left and says what the code alone does not. Only what this call made is cleared:
        another process may be between its own two steps."""
        text = str(error)
        try:
            with as_driver_error("reading the state"):
                present = find_instances(gpu, self._gpus.shapes(berth.gpu_uuid))
            if error.code == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES:
                text += f": {why_no_room(present, berth)}"
            for left in present:
                if left.id == made_id:
                    clear_instance(left)
        except DriverError as second:
            text += f"; and what is left half made could not be cleared: {second}"
        return DriverError(text, error.code, error.holders)

    def _use_of_instance(self, gpu_uuid: str, mig_uuid: str) -> DeviceUse:
        mig, gpu = _handle(mig_uuid), _handle(gpu_uuid)
        if mig is None or gpu is None:
            return DeviceUse()
        return use_of_instance(mig, gpu, gpu_uuid, self._gpm)


def _handle(uuid: str) -> Any:
    """None when the device cannot be reached now."""
    return measured(lambda: pynvml.nvmlDeviceGetHandleByUUID(uuid))
