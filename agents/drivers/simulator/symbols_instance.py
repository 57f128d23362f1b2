"""NVML symbols about GPU instances: MIG mode, profiles, placements, creation and destruction."""

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
    Refusal,
    elements,
    number,
    require_version,
    target,
    write_handle,
)
from agents.drivers.simulator.models import InstanceProfile
from agents.drivers.simulator.node import Gpu, GpuInstance, Node
from agents.drivers.simulator.session import Device, Session


def require_root(node: Node) -> None:
    if not node.root:
        raise Refusal(pynvml.NVML_ERROR_NO_PERMISSION)


def mig_mode(session: Session, handle: Any, current: Any, pending: Any) -> None:
    gpu = session.gpu(handle)
    if not session.model(gpu).profiles:
        raise NotSupported
    target(current).value, target(pending).value = int(gpu.mig_current), int(gpu.mig_pending)


def set_mig_mode(session: Session, handle: Any, mode: Any, status: Any) -> None:
    """The call succeeds; ``status`` says whether the mode is on. On Ampere a busy GPU keeps the change pending."""
    wanted = number(mode)
    with session.file.change() as node:
        gpu = session.gpu(handle, node)
        model = session.model(gpu)
        if wanted not in (0, 1):
            raise InvalidArgument
        if not model.profiles:
            raise NotSupported
        require_root(node)
        busy = bool(gpu.clients or gpu.instances or session.rows(Device(gpu), fresh=True))
        refused = busy and gpu.mig_current != bool(wanted)
        if not refused:
            gpu.mig_current = gpu.mig_pending = bool(wanted)
        elif model.mode_needs_reset:
            gpu.mig_pending = bool(wanted)
        target(status).value = pynvml.NVML_ERROR_IN_USE if refused else pynvml.NVML_SUCCESS


def profile_info(session: Session, handle: Any, index: Any, reference: Any) -> None:
    _write_profile(target(reference), _profile_at(session, handle, index))


def profile_info_v2(session: Session, handle: Any, index: Any, reference: Any) -> None:
    info = target(reference)
    if info.version != pynvml.nvmlGpuInstanceProfileInfo_v2:
        raise InvalidArgument
    profile = _profile_at(session, handle, index)
    _write_profile(info, profile)
    info.name = f"MIG {profile.name}"


def _profile_at(session: Session, handle: Any, index: Any) -> InstanceProfile:
    model = session.model(session.gpu(handle))
    if not 0 <= number(index) < pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT:
        raise InvalidArgument
    profile = model.by_index(number(index))
    if profile is None:
        raise NotSupported
    return profile


def profile_info_by_id(session: Session, handle: Any, profile_id: Any, reference: Any) -> None:
    info = target(reference)
    require_version(info, pynvml.nvmlGpuInstanceProfileInfo_v2)
    profile = _profile_with_id(session, session.gpu(handle), profile_id)
    _write_profile(info, profile)
    info.name = f"MIG {profile.name}"


def _write_profile(info: Any, profile: InstanceProfile) -> None:
    info.id, info.sliceCount, info.instanceCount = profile.profile_id, profile.slices, profile.max_count
    info.isP2pSupported, info.memorySizeMB = 0, profile.memory_mib
    info.multiprocessorCount, info.copyEngineCount = profile.multiprocessors, profile.copy_engines
    info.decoderCount, info.encoderCount = profile.decoders, profile.encoders
    info.jpegCount, info.ofaCount = profile.jpeg, profile.ofa


def _profile_with_id(session: Session, gpu: Gpu, profile_id: Any) -> InstanceProfile:
    model = session.model(gpu)
    if not model.profiles:
        raise NotSupported
    profile = model.by_id(number(profile_id))
    if profile is None:
        raise InvalidArgument
    return profile


def possible_placements(session: Session, handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    """Answers with MIG off too, as newer drivers do."""
    spans = _profile_with_id(session, session.gpu(handle), profile_id).spans
    if array is not None:
        cells = elements(array)
        for place, (start, size) in enumerate(spans):
            cells[place].start, cells[place].size = start, size
    target(count).value = len(spans)


def _configurable(session: Session, node: Node, handle: Any, profile_id: Any) -> tuple[Gpu, InstanceProfile]:
    gpu = session.gpu(handle, node)
    require_root(node)
    if not gpu.mig_current:
        raise NotSupported
    return gpu, _profile_with_id(session, gpu, profile_id)


def remaining_capacity(session: Session, handle: Any, profile_id: Any, reference: Any) -> None:
    gpu, profile = _configurable(session, session.node, handle, profile_id)
    target(reference).value = layout.remaining(session.model(gpu), gpu, profile)


def create_instance(session: Session, handle: Any, profile_id: Any, reference: Any) -> None:
    with session.file.change() as node:
        gpu, profile = _configurable(session, node, handle, profile_id)
        span = layout.default_span(session.model(gpu), gpu, profile)
        if span is None:
            raise NoRoom
        _add_instance(session, node, gpu, profile, span, reference)


def create_instance_with_placement(
    session: Session, handle: Any, profile_id: Any, placement: Any, reference: Any
) -> None:
    wanted = target(placement)
    span = (wanted.start, wanted.size)
    with session.file.change() as node:
        gpu, profile = _configurable(session, node, handle, profile_id)
        if span not in profile.spans:
            raise InvalidArgument
        if span not in layout.free_spans(session.model(gpu), gpu, profile):
            raise NoRoom
        _add_instance(session, node, gpu, profile, span, reference)


def _add_instance(
    session: Session, node: Node, gpu: Gpu, profile: InstanceProfile, span: tuple[int, int], reference: Any
) -> None:
    instance = GpuInstance(
        id=layout.instance_id(session.model(gpu), gpu, *span),
        profile_id=profile.profile_id,
        start=span[0],
        size=span[1],
        serial=node.next_serial(),
    )
    gpu.instances.append(instance)
    write_handle(reference, session.instance_address(gpu, instance))


def destroy_instance(session: Session, handle: Any) -> None:
    with session.file.change() as node:
        gpu, instance = session.instance(handle, node)
        require_root(node)
        if instance.compute:
            raise InUse
        gpu.instances.remove(instance)


def instances_of_profile(session: Session, handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    gpu, profile = _configurable(session, session.node, handle, profile_id)
    found = [instance for instance in gpu.instances if instance.profile_id == profile.profile_id]
    cells = elements(array)
    for place, instance in enumerate(found):
        cells[place] = ctypes.cast(session.instance_address(gpu, instance), pynvml.c_nvmlGpuInstance_t)
    target(count).value = len(found)


def instance_by_id(session: Session, handle: Any, instance_id: Any, reference: Any) -> None:
    gpu = session.gpu(handle)
    require_root(session.node)
    if not gpu.mig_current:
        raise NotSupported
    for instance in gpu.instances:
        if instance.id == number(instance_id):
            write_handle(reference, session.instance_address(gpu, instance))
            return
    raise NotFound


def instance_info(session: Session, handle: Any, reference: Any) -> None:
    gpu, instance = session.instance(handle)
    info = target(reference)
    info.device = ctypes.cast(session.gpu_address(gpu), pynvml.c_nvmlDevice_t)
    info.id, info.profileId = instance.id, instance.profile_id
    info.placement.start, info.placement.size = instance.start, instance.size


SYMBOLS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetMigMode": mig_mode,
    "nvmlDeviceSetMigMode": set_mig_mode,
    "nvmlDeviceGetGpuInstanceProfileInfo": profile_info,
    "nvmlDeviceGetGpuInstanceProfileInfoV": profile_info_v2,
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV": profile_info_by_id,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": possible_placements,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": remaining_capacity,
    "nvmlDeviceCreateGpuInstance": create_instance,
    "nvmlDeviceCreateGpuInstanceWithPlacement": create_instance_with_placement,
    "nvmlGpuInstanceDestroy": destroy_instance,
    "nvmlDeviceGetGpuInstances": instances_of_profile,
    "nvmlDeviceGetGpuInstanceById": instance_by_id,
    "nvmlGpuInstanceGetInfo": instance_info,
}
