"""GPU instances through NVML: read, make, clear. Whatever NVML answers, what counts is what is read afterwards."""

import ctypes
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from agents.drivers.contract import DriverError, Instance
from agents.drivers.nvml_errors import UNKNOWN_TO_DRIVER
from agents.drivers.nvml_profiles import InstanceShape

log = logging.getLogger(__name__)

# A GPU instance holds at most as many compute instances as there are engines, and their ids count from 0.
COMPUTE_IDS = range(8)


@dataclass(frozen=True)
class FoundInstance:
    """A GPU instance on the device, with the handles of its compute instances."""

    handle: Any
    id: int
    profile_id: int
    start: int
    size: int
    compute: tuple[Any, ...]

    def as_instance(self, gpu_uuid: str) -> Instance:
        mig_uuid = pynvml.nvmlDeviceGetUUID(mig_device(self.compute[0])) if self.compute else None
        return Instance(gpu_uuid, self.start, self.size, self.profile_id, mig_uuid)


@dataclass(frozen=True)
class Berth:
    """Where an instance of which shape is to sit."""

    gpu_uuid: str
    shape: InstanceShape
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.shape.fact.name} at slices {self.start} to {self.start + self.size}"

    def is_taken_by(self, found: FoundInstance) -> bool:
        return found.start < self.start + self.size and self.start < found.start + found.size


def mig_device(compute: Any) -> Any:
    return pynvml.nvmlComputeInstanceGetInfo(compute).device


def find_instances(gpu: Any, shapes: tuple[InstanceShape, ...]) -> list[FoundInstance]:
    """Every GPU instance, by walking the profiles: one without a compute instance has no MIG device to be found by."""
    return [found for shape in shapes for found in _of_shape(gpu, shape)]


def _of_shape(gpu: Any, shape: InstanceShape) -> Iterator[FoundInstance]:
    array = (pynvml.c_nvmlGpuInstance_t * shape.fact.max_count)()
    count = ctypes.c_uint()
    pynvml.nvmlDeviceGetGpuInstances(gpu, shape.profile_id, array, ctypes.byref(count))
    for handle in array[: count.value]:
        info = pynvml.nvmlGpuInstanceGetInfo(handle)
        place = info.placement
        yield FoundInstance(handle, info.id, info.profileId, place.start, place.size, _compute_of(handle))


def _compute_of(instance: Any) -> tuple[Any, ...]:
    found = []
    for compute_id in COMPUTE_IDS:
        try:
            found.append(pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, compute_id))
        except pynvml.NVMLError as error:
            if error.value not in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT):
                raise
    return tuple(found)


def make_instance(gpu: Any, berth: Berth) -> Any:
    """A GPU instance at the span, still without a compute instance; gives its handle."""
    placement = pynvml.c_nvmlGpuInstancePlacement_t(berth.start, berth.size)
    reference = ctypes.byref(placement)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, berth.shape.profile_id, reference)


def fill_instance(instance: Any, shape: InstanceShape) -> None:
    pynvml.nvmlGpuInstanceCreateComputeInstance(instance, filling_profile(instance, shape))


def filling_profile(instance: Any, shape: InstanceShape) -> int:
    """The compute profile with all slices of the GPU instance and, where several have, all its multiprocessors."""
    profiles = []
    for index in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                instance, index, pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
            )
        except pynvml.NVMLError as error:
            if error.value not in UNKNOWN_TO_DRIVER:
                raise
        else:
            if info.sliceCount == shape.fact.compute_slices:
                profiles.append((abs(info.multiprocessorCount - shape.multiprocessors), info.id))
    if not profiles:
        raise DriverError(f"The driver offers no compute instance that fills {shape.fact.name}.")
    return min(profiles)[1]


def clear_instance(found: FoundInstance) -> None:
    """Compute instances first. A refusal because of use names the processes that hold the slice."""
    for compute in found.compute:
        try:
            pynvml.nvmlComputeInstanceDestroy(compute)
        except pynvml.NVMLError as error:
            raise _refusal(error, found, process_ids(mig_device(compute))) from error
    try:
        pynvml.nvmlGpuInstanceDestroy(found.handle)
    except pynvml.NVMLError as error:
        raise _refusal(error, found, ()) from error


def _refusal(error: pynvml.NVMLError, found: FoundInstance, pids: tuple[int, ...]) -> DriverError:
    text = f"Clearing slices {found.start} to {found.start + found.size}: {error}"
    if error.value == pynvml.NVML_ERROR_IN_USE:
        text += f"; held by {', '.join(map(str, pids))}" if pids else "; held by a client that shows no process"
    return DriverError(f"{text} (NVML {error.value})", error.value, pids)


def process_ids(device: Any) -> tuple[int, ...]:
    return tuple(sorted(row.pid for row in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(device)))


def why_no_room(present: list[FoundInstance], berth: Berth) -> str:
    """NVML has one code for every kind of lack; the state tells which it is."""
    places = [f"slices {found.start} to {found.start + found.size}" for found in present if berth.is_taken_by(found)]
    if places:
        return f"taken by the GPU instance at {', '.join(places)}"
    fact = berth.shape.fact
    if sum(found.profile_id == fact.profile_id for found in present) >= fact.max_count:
        return f"the GPU takes {fact.name} {fact.max_count} times and has that already"
    return "compute slices or media engines are used up by the other instances"
