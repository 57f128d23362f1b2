"""The profiles of a GPU, as its driver tells them: legal places, counts, names."""

import ctypes
from dataclasses import dataclass
from typing import Any

import pynvml

from agents.drivers.nvml_errors import UNKNOWN_TO_DRIVER
from agents.protocol import ProfileFact

MIB = 1 << 20
MEMORY_SLICES = 8
_SUFFIXES = {
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: "+me.all",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: "+me.all",
}


@dataclass(frozen=True)
class InstanceShape:
    """A profile and what is needed to pick the compute instance that fills it."""

    fact: ProfileFact
    profile_id: int
    multiprocessors: int


def read_shapes(handle: Any, memory_bytes: int) -> tuple[InstanceShape, ...]:
    """Every profile that the driver offers on this GPU, in the driver's order; none when it has no MIG or is too old
    to tell with MIG off."""
    shapes = (_shape_at(handle, index, memory_bytes) for index in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT))
    return tuple(shape for shape in shapes if shape is not None)


def _shape_at(handle: Any, index: int, memory_bytes: int) -> InstanceShape | None:
    try:
        info, name = _profile_info(handle, index)
        places = _placements(handle, info.id)
    except pynvml.NVMLError as error:
        if error.value in UNKNOWN_TO_DRIVER:
            return None
        raise
    if not places:
        return None
    fact = ProfileFact(
        name=name.removeprefix("MIG ") or computed_name(index, info.sliceCount, info.memorySizeMB, memory_bytes),
        profile_id=info.id,
        size=places[0][1],
        starts=tuple(sorted(start for start, _ in places)),
        compute_slices=info.sliceCount,
        memory_mib=info.memorySizeMB,
        max_count=info.instanceCount,
    )
    return InstanceShape(fact, info.id, info.multiprocessorCount)


def _profile_info(handle: Any, index: int) -> tuple[Any, str]:
    """The versioned struct has the driver's own name; an older driver has only the first version."""
    try:
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, index)
        return info, _text(info.name)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, index, version=1), ""


def _text(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def _placements(handle: Any, profile_id: int) -> list[tuple[int, int]]:
    count = ctypes.c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, ctypes.byref(count))
    if not count.value:
        return []
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, array, ctypes.byref(count))
    return [(place.start, place.size) for place in array[: count.value]]


def computed_name(index: int, slices: int, memory_mib: int, board_bytes: int) -> str:
    """NVIDIA's own rule: the memory of a profile, up to the next eighth of the board's, in whole GiB."""
    board_gib = -(-board_bytes // (MIB << 10))
    eighths = -(-memory_mib * MIB * MEMORY_SLICES // board_bytes)
    gib = int(board_gib * eighths / MEMORY_SLICES + 0.5)
    return f"{slices}g.{gib}gb{_SUFFIXES.get(index, '')}"


def whole_profile(memory_slices: int, compute_slices: int, memory_mib: int) -> ProfileFact:
    """A GPU without MIG, or with MIG off: one span that fills it."""
    return ProfileFact(
        name="full",
        profile_id=None,
        size=memory_slices,
        starts=(0,),
        compute_slices=compute_slices,
        memory_mib=memory_mib,
        max_count=1,
    )
