"""NVML symbols about the library and about devices: handles, names, memory, processes, power."""

from collections.abc import Callable
from typing import Any

import pynvml

from agents.drivers.simulator.arguments import (
    InvalidArgument,
    NotFound,
    NotSupported,
    Refusal,
    elements,
    number,
    target,
    text_of,
    write_handle,
    write_text,
)
from agents.drivers.simulator.layout import profile_of
from agents.drivers.simulator.node import Gpu
from agents.drivers.simulator.processes import process_use
from agents.drivers.simulator.session import Device, Session

MIB = 1 << 20
CONTEXT_BYTES = 256 * MIB
RESERVED_BYTES = 13 * MIB
NO_INSTANCE = 0xFFFFFFFF
IDLE_CELSIUS = 32
CELSIUS_UNDER_LOAD = 43


def init(session: Session, flags: Any = 0) -> None:
    session.references += 1


def shutdown(session: Session) -> None:
    session.references -= 1


def driver_version(session: Session, buffer: Any, length: Any) -> None:
    write_text(buffer, length, session.node.driver_version)


def device_count(session: Session, reference: Any) -> None:
    target(reference).value = len(session.node.gpus)


def handle_by_index(session: Session, index: Any, reference: Any) -> None:
    gpus = session.node.gpus
    if not 0 <= number(index) < len(gpus):
        raise InvalidArgument
    gpu = gpus[number(index)]
    if gpu.lost:
        raise Refusal(pynvml.NVML_ERROR_GPU_IS_LOST)
    write_handle(reference, session.gpu_address(gpu))


def handle_by_uuid(session: Session, uuid: Any, reference: Any) -> None:
    """Takes a GPU's UUID, ``MIG-<uuid>`` and the older ``MIG-<gpu uuid>/<instance>/<compute instance>``."""
    wanted = text_of(uuid)
    for gpu in session.node.gpus:
        address = _address_in(session, gpu, wanted)
        if address is not None:
            if gpu.lost:
                raise Refusal(pynvml.NVML_ERROR_GPU_IS_LOST)
            write_handle(reference, address)
            return
    raise NotFound


def _address_in(session: Session, gpu: Gpu, wanted: str) -> int | None:
    if gpu.uuid == wanted:
        return session.gpu_address(gpu)
    for instance in gpu.instances:
        for compute in instance.compute:
            if wanted in (compute.uuid, f"MIG-{gpu.uuid}/{instance.id}/{compute.id}"):
                return session.mig_address(gpu, instance, compute)
    return None


def device_name(session: Session, handle: Any, buffer: Any, length: Any) -> None:
    device = session.device(handle)
    model = session.model(device.gpu)
    name = model.product
    if device.instance is not None and device.compute is not None:
        profiles = profile_of(model, device.instance).compute
        name += " MIG " + next(known.name for known in profiles if known.profile_id == device.compute.profile_id)
    write_text(buffer, length, name)


def device_uuid(session: Session, handle: Any, buffer: Any, length: Any) -> None:
    write_text(buffer, length, session.device(handle).uuid)


def device_index(session: Session, handle: Any, reference: Any) -> None:
    target(reference).value = session.gpu(handle).index


def pci_info(session: Session, handle: Any, reference: Any) -> None:
    gpu, info = session.gpu(handle), target(reference)
    write_pci(info, gpu.pci_bus_id)
    info.pciDeviceId = session.model(gpu).pci_device_id


def write_pci(info: Any, bus_id: str) -> None:
    domain, bus, slot = bus_id.split(":")
    info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(slot.split(".")[0], 16)
    info.busId, info.busIdLegacy = bus_id, bus_id[4:]


def memory_info(session: Session, handle: Any, reference: Any) -> None:
    _write_memory(session, session.device(handle), target(reference))


def memory_info_v2(session: Session, handle: Any, reference: Any) -> None:
    info = target(reference)
    if info.version != pynvml.nvmlMemory_v2:
        raise Refusal(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
    info.reserved = RESERVED_BYTES
    _write_memory(session, session.device(handle), info)


def _write_memory(session: Session, device: Device, info: Any) -> None:
    """A MIG device shows its GPU instance's memory: that of all its compute instances together."""
    model = session.model(device.gpu)
    rows = session.rows(Device(device.gpu))
    total_mib = model.memory_mib
    if device.instance is not None:
        total_mib = profile_of(model, device.instance).memory_mib
        rows = [row for row in rows if row[1] == device.instance.id]
    used = RESERVED_BYTES + sum(_process_bytes(pid) for pid, _, _ in rows)
    info.total, info.used = total_mib * MIB, min(used, total_mib * MIB)
    info.free = info.total - info.used


def _process_bytes(pid: int) -> int:
    use = process_use(pid)
    return 0 if use is None else use.resident_bytes + CONTEXT_BYTES


def compute_processes(session: Session, handle: Any, count: Any, array: Any) -> None:
    rows = session.rows(session.device(handle))
    room, target(count).value = target(count).value, len(rows)
    if not rows:
        return
    if array is None or room < len(rows):
        raise Refusal(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    cells = elements(array)
    for place, (pid, instance_id, compute_id) in enumerate(rows):
        cells[place].pid, cells[place].usedGpuMemory = pid, _process_bytes(pid)
        cells[place].gpuInstanceId = NO_INSTANCE if instance_id is None else instance_id
        cells[place].computeInstanceId = NO_INSTANCE if compute_id is None else compute_id


def utilization_rates(session: Session, handle: Any, reference: Any) -> None:
    device, rates = session.device(handle), target(reference)
    if device.gpu.mig_current:
        raise NotSupported
    rates.gpu = round(_load_percent(session, device.gpu))
    rates.memory = round(rates.gpu * 0.3)


def _load_percent(session: Session, gpu: Gpu) -> float:
    """Of the whole board: each slice counts with its part of the compute slices."""
    model = session.model(gpu)
    if not gpu.mig_current:
        return session.meter.percent(gpu.uuid, session.processes.holders(gpu.uuid))
    parts = (
        session.meter.percent(compute.uuid, session.processes.holders(compute.uuid))
        * profile_of(model, instance).slices
        / model.compute_slices
        for instance in gpu.instances
        for compute in instance.compute
    )
    return min(100.0, sum(parts))


def power_usage(session: Session, handle: Any, reference: Any) -> None:
    """Milliwatts of the board, on a straight line between idle and the limit."""
    gpu = _whole(session, handle)
    board = session.model(gpu).board
    spread = board.power_limit_watts - board.power_idle_watts
    target(reference).value = round(1000 * (board.power_idle_watts + spread * _load_percent(session, gpu) / 100))


def temperature(session: Session, handle: Any, sensor: Any, reference: Any) -> None:
    gpu = _whole(session, handle)
    if number(sensor) != pynvml.NVML_TEMPERATURE_GPU:
        raise InvalidArgument
    target(reference).value = round(IDLE_CELSIUS + CELSIUS_UNDER_LOAD * _load_percent(session, gpu) / 100)


def clock_info(session: Session, handle: Any, kind: Any, reference: Any) -> None:
    gpu = _whole(session, handle)
    if number(kind) not in (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_GRAPHICS):
        raise NotSupported
    board = session.model(gpu).board
    target(reference).value = board.clock_max_mhz if _load_percent(session, gpu) >= 1 else board.clock_idle_mhz


def _whole(session: Session, handle: Any) -> Gpu:
    """Board values exist for whole GPUs only."""
    device = session.device(handle)
    if device.compute is not None:
        raise NotSupported
    return device.gpu


SYMBOLS: dict[str, Callable[..., None]] = {
    "nvmlInitWithFlags": init,
    "nvmlInit_v2": init,
    "nvmlShutdown": shutdown,
    "nvmlSystemGetDriverVersion": driver_version,
    "nvmlDeviceGetCount_v2": device_count,
    "nvmlDeviceGetHandleByIndex_v2": handle_by_index,
    "nvmlDeviceGetHandleByUUID": handle_by_uuid,
    "nvmlDeviceGetName": device_name,
    "nvmlDeviceGetUUID": device_uuid,
    "nvmlDeviceGetIndex": device_index,
    "nvmlDeviceGetPciInfo_v3": pci_info,
    "nvmlDeviceGetMemoryInfo": memory_info,
    "nvmlDeviceGetMemoryInfo_v2": memory_info_v2,
    "nvmlDeviceGetComputeRunningProcesses_v3": compute_processes,
    "nvmlDeviceGetUtilizationRates": utilization_rates,
    "nvmlDeviceGetPowerUsage": power_usage,
    "nvmlDeviceGetTemperature": temperature,
    "nvmlDeviceGetClockInfo": clock_info,
}
