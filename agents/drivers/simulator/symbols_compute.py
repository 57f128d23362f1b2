"""NVML symbols about compute instances and the MIG devices they make."""

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from agents.drivers.simulator import layout
from agents.drivers.simulator.arguments import (
    InUse,
    InvalidArgument,
    NoRoom,
    NotFound,
    NotSupported,
    elements,
    number,
    target,
    write_handle,
)
from agents.drivers.simulator.models import ComputeProfile, InstanceProfile
from agents.drivers.simulator.node import ComputeInstance, Gpu, GpuInstance
from agents.drivers.simulator.session import Device, Session
from agents.drivers.simulator.symbols_instance import require_root

COMPUTE_IDS = 8


def profile_info(session: Session, handle: Any, index: Any, engine: Any, reference: Any) -> None:
    _write_profile(target(reference), *_profile_at(session, handle, index, engine))


def profile_info_v2(session: Session, handle: Any, index: Any, engine: Any, reference: Any) -> None:
    info = target(reference)
    if info.version != pynvml.nvmlComputeInstanceProfileInfo_v2:
        raise InvalidArgument
    parent, profile = _profile_at(session, handle, index, engine)
    _write_profile(info, parent, profile)
    info.name = f"MIG {profile.name}"


def _profile_at(session: Session, handle: Any, index: Any, engine: Any) -> tuple[InstanceProfile, ComputeProfile]:
    gpu, instance = session.instance(handle)
    if number(engine) != pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED:
        raise InvalidArgument
    if not 0 <= number(index) < pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT:
        raise InvalidArgument
    parent = layout.profile_of(session.model(gpu), instance)
    for profile in parent.compute:
        if profile.index == number(index):
            return parent, profile
    raise NotSupported


def _write_profile(info: Any, parent: InstanceProfile, profile: ComputeProfile) -> None:
    info.id, info.sliceCount, info.instanceCount = profile.profile_id, profile.slices, profile.max_count
    info.multiprocessorCount = parent.compute_multiprocessors(profile)
    info.sharedCopyEngineCount, info.sharedDecoderCount = profile.copy_engines, profile.decoders
    info.sharedEncoderCount, info.sharedJpegCount = profile.encoders, profile.jpeg
    info.sharedOfaCount = profile.ofa


def create(session: Session, handle: Any, profile_id: Any, reference: Any) -> None:
    with session.file.change() as node:
        gpu, instance = session.instance(handle, node)
        require_root(node)
        parent = layout.profile_of(session.model(gpu), instance)
        profile = next((known for known in parent.compute if known.profile_id == number(profile_id)), None)
        if profile is None:
            raise NotSupported
        start = layout.free_compute_start(instance, parent, profile)
        if start is None:
            raise NoRoom
        taken = {other.id for other in instance.compute}
        made = ComputeInstance(
            id=next(number for number in range(COMPUTE_IDS) if number not in taken),
            profile_id=profile.profile_id,
            start=start,
            uuid=layout.mig_uuid(gpu, instance, start),
            serial=node.next_serial(),
        )
        instance.compute.append(made)
        write_handle(reference, session.compute_address(gpu, instance, made))


def destroy(session: Session, handle: Any) -> None:
    """Refused while a process has the device, a daemon holds the GPU or this process keeps a sample of it."""
    with session.file.change() as node:
        gpu, instance, compute = session.compute(handle, node)
        require_root(node)
        sampled = any(sample.entity == (gpu.uuid, instance.serial) for sample in session.samples)
        if sampled or gpu.clients or session.rows(Device(gpu, instance, compute), fresh=True):
            raise InUse
        instance.compute.remove(compute)


def info(session: Session, handle: Any, reference: Any) -> None:
    """``device`` is the MIG device, whatever the header's comment says."""
    gpu, instance, compute = session.compute(handle)
    struct = target(reference)
    struct.device = ctypes.cast(session.mig_address(gpu, instance, compute), pynvml.c_nvmlDevice_t)
    struct.gpuInstance = ctypes.cast(session.instance_address(gpu, instance), pynvml.c_nvmlGpuInstance_t)
    struct.id, struct.profileId = compute.id, compute.profile_id
    struct.placement.start, struct.placement.size = compute.start, _profile(session, gpu, instance, compute).slices


def _profile(session: Session, gpu: Gpu, instance: GpuInstance, compute: ComputeInstance) -> ComputeProfile:
    parent = layout.profile_of(session.model(gpu), instance)
    return next(known for known in parent.compute if known.profile_id == compute.profile_id)


def of_profile(session: Session, handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    gpu, instance = session.instance(handle)
    found = [compute for compute in instance.compute if compute.profile_id == number(profile_id)]
    cells = elements(array)
    for place, compute in enumerate(found):
        cells[place] = ctypes.cast(session.compute_address(gpu, instance, compute), pynvml.c_nvmlComputeInstance_t)
    target(count).value = len(found)


def by_id(session: Session, handle: Any, compute_id: Any, reference: Any) -> None:
    gpu, instance = session.instance(handle)
    for compute in instance.compute:
        if compute.id == number(compute_id):
            write_handle(reference, session.compute_address(gpu, instance, compute))
            return
    raise NotFound


def is_mig_device(session: Session, handle: Any, reference: Any) -> None:
    target(reference).value = int(session.device(handle).compute is not None)


def max_mig_devices(session: Session, handle: Any, reference: Any) -> None:
    gpu = session.gpu(handle)
    target(reference).value = session.model(gpu).compute_slices if gpu.mig_current else 0


def mig_device_by_index(session: Session, handle: Any, index: Any, reference: Any) -> None:
    """MIG indices follow instance ids and move when instances come and go."""
    gpu = session.gpu(handle)
    if not gpu.mig_current:
        raise NotSupported
    if not 0 <= number(index) < session.model(gpu).compute_slices:
        raise InvalidArgument
    ordered = [
        (instance, compute)
        for instance in sorted(gpu.instances, key=lambda known: known.id)
        for compute in sorted(instance.compute, key=lambda known: known.id)
    ]
    if number(index) >= len(ordered):
        raise NotFound
    write_handle(reference, session.mig_address(gpu, *ordered[number(index)]))


def parent_of_mig_device(session: Session, handle: Any, reference: Any) -> None:
    gpu, _, _ = _mig_device(session, handle)
    write_handle(reference, session.gpu_address(gpu))


def _mig_device(session: Session, handle: Any) -> tuple[Gpu, GpuInstance, ComputeInstance]:
    device = session.device(handle)
    if device.instance is None or device.compute is None:
        raise InvalidArgument
    return device.gpu, device.instance, device.compute


def instance_id(session: Session, handle: Any, reference: Any) -> None:
    target(reference).value = _mig_device(session, handle)[1].id


def compute_id(session: Session, handle: Any, reference: Any) -> None:
    target(reference).value = _mig_device(session, handle)[2].id


def attributes(session: Session, handle: Any, reference: Any) -> None:
    device = session.device(handle)
    if device.instance is None or device.compute is None:
        raise NotSupported
    parent = layout.profile_of(session.model(device.gpu), device.instance)
    profile = _profile(session, device.gpu, device.instance, device.compute)
    struct = target(reference)
    struct.multiprocessorCount = parent.compute_multiprocessors(profile)
    struct.sharedCopyEngineCount, struct.sharedDecoderCount = parent.copy_engines, parent.decoders
    struct.sharedEncoderCount, struct.sharedJpegCount = parent.encoders, parent.jpeg
    struct.sharedOfaCount, struct.memorySizeMB = parent.ofa, parent.memory_mib
    struct.gpuInstanceSliceCount, struct.computeInstanceSliceCount = parent.slices, profile.slices


SYMBOLS: dict[str, Callable[..., None]] = {
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": profile_info,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": profile_info_v2,
    "nvmlGpuInstanceCreateComputeInstance": create,
    "nvmlComputeInstanceDestroy": destroy,
    "nvmlComputeInstanceGetInfo_v2": info,
    "nvmlGpuInstanceGetComputeInstances": of_profile,
    "nvmlGpuInstanceGetComputeInstanceById": by_id,
    "nvmlDeviceIsMigDeviceHandle": is_mig_device,
    "nvmlDeviceGetMaxMigDeviceCount": max_mig_devices,
    "nvmlDeviceGetMigDeviceHandleByIndex": mig_device_by_index,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": parent_of_mig_device,
    "nvmlDeviceGetGpuInstanceId": instance_id,
    "nvmlDeviceGetComputeInstanceId": compute_id,
    "nvmlDeviceGetAttributes_v2": attributes,
}
