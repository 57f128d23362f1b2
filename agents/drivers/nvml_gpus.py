"""The devices of a machine through NVML, known by UUID; what a lost one was stays known."""

import logging
from typing import Any

import msgspec
import pynvml

from agents.drivers.contract import DriverError
from agents.drivers.nvml_errors import as_driver_error
from agents.drivers.nvml_links import Links, read_links
from agents.drivers.nvml_metrics import tells_utilization
from agents.drivers.nvml_profiles import MIB, InstanceShape, read_shapes, whole_profile
from agents.protocol import GpuFact

log = logging.getLogger(__name__)

# A driver that does not tell profiles with MIG off leaves the canvas to convention: (memory, compute) slices.
CANVAS = (8, 7)
CANVAS_OF_A30 = (4, 4)


class GpuRegister:
    """Not thread-safe; the driver that owns it is."""

    def __init__(self) -> None:
        self._facts: dict[str, GpuFact] = {}
        self._shapes: dict[tuple[str, bool], tuple[InstanceShape, ...]] = {}
        self._measured: dict[tuple[str, bool], bool] = {}
        self._links: Links = {}

    def read(self) -> tuple[GpuFact, ...]:
        """Every device. One that was seen before and cannot be read now is not healthy and keeps its last facts; one
        that was never readable has no UUID and is only logged."""
        with as_driver_error("Counting the GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        seen: dict[str, GpuFact] = {}
        trouble: dict[int, pynvml.NVMLError] = {}
        for index in range(count):
            try:
                fact = self._read_one(index)
            except pynvml.NVMLError as error:
                trouble[index] = error
            else:
                seen[fact.uuid] = fact
        seen = self._with_links(seen)
        for uuid, known in self._facts.items():
            if uuid not in seen:
                cause = trouble.pop(known.index, None)
                reason = f"The GPU cannot be read: {cause}." if cause else "The driver does not list the GPU any more."
                seen[uuid] = msgspec.structs.replace(known, healthy=False, fault=reason)
        for index, cause in trouble.items():
            log.warning("GPU %s cannot be read and was never seen: %s", index, cause)
        self._facts = dict(sorted(seen.items(), key=lambda item: item[1].index))
        return tuple(self._facts.values())

    def known(self) -> tuple[GpuFact, ...]:
        """As last read."""
        return tuple(self._facts.values())

    def shapes(self, uuid: str) -> tuple[InstanceShape, ...]:
        """Profiles of a GPU that has MIG on; none otherwise."""
        return self._shapes.get((uuid, True), ())

    def shape(self, uuid: str, profile_id: int) -> InstanceShape:
        for shape in self.shapes(uuid):
            if shape.fact.profile_id == profile_id:
                return shape
        raise DriverError(f"The driver offers no profile {profile_id} on {uuid} now.", pynvml.NVML_ERROR_NOT_FOUND)

    def _read_one(self, index: int) -> GpuFact:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        name = pynvml.nvmlDeviceGetName(handle)
        memory_bytes = pynvml.nvmlDeviceGetMemoryInfo(handle).total
        modes = mig_modes(handle)
        enabled = modes is not None and modes[0]
        shapes = self._shapes_of(handle, uuid, enabled, memory_bytes) if modes is not None else ()
        memory_slices, compute_slices = _canvas(shapes, name)
        whole = whole_profile(memory_slices, compute_slices, memory_bytes // MIB)
        return GpuFact(
            uuid=uuid,
            index=index,
            model=name,
            memory_mib=memory_bytes // MIB,
            memory_slices=memory_slices,
            compute_slices=compute_slices,
            mig_capable=modes is not None,
            mig_enabled=enabled,
            profiles=tuple(shape.fact for shape in shapes) if enabled else (whole,),
            pci_bus_id=_pci_bus_id(handle),
            fault=_pending(modes),
            measured=self._is_measured(handle, uuid, enabled),
        )

    def _is_measured(self, handle: Any, uuid: str, enabled: bool) -> bool:
        """Asked once for each mode."""
        key = (uuid, enabled)
        if key not in self._measured:
            self._measured[key] = tells_utilization(handle, enabled)
        return self._measured[key]

    def _with_links(self, seen: dict[str, GpuFact]) -> dict[str, GpuFact]:
        """Asked anew when other GPUs can be read than before: hundreds of calls, of what a machine is built like."""
        if seen.keys() != self._links.keys():
            try:
                self._links = read_links(list(seen))
            except pynvml.NVMLError as error:
                log.warning("how the GPUs are linked cannot be read: %s", error)
        return {uuid: msgspec.structs.replace(fact, links=self._links.get(uuid)) for uuid, fact in seen.items()}

    def _shapes_of(self, handle: Any, uuid: str, enabled: bool, memory_bytes: int) -> tuple[InstanceShape, ...]:
        """Asked once for each mode: what a board offers changes only with the driver."""
        key = (uuid, enabled)
        if key not in self._shapes:
            self._shapes[key] = read_shapes(handle, memory_bytes)
        return self._shapes[key]


def mig_modes(handle: Any) -> tuple[bool, bool] | None:
    """(current, pending), or None on a GPU without MIG."""
    try:
        current, pending = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return None
        raise
    return bool(current), bool(pending)


def _pending(modes: tuple[bool, bool] | None) -> str:
    if modes is None or modes[0] == modes[1]:
        return ""
    return f"MIG is to be {'on' if modes[1] else 'off'} and waits for a reset of the GPU."


def _canvas(shapes: tuple[InstanceShape, ...], name: str) -> tuple[int, int]:
    if not shapes:
        return CANVAS_OF_A30 if "A30" in name.split() else CANVAS
    ends = (shape.fact.starts[-1] + shape.fact.size for shape in shapes)
    return max(ends), max(shape.fact.compute_slices for shape in shapes)


def _pci_bus_id(handle: Any) -> str:
    bus_id = pynvml.nvmlDeviceGetPciInfo(handle).busId
    return bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
