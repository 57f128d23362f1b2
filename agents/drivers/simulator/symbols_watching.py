"""NVML symbols that watch: GPM samples on Hopper and newer, and XID events."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pynvml

from agents.drivers.simulator.activity import MEMORY_BANDWIDTH_SHARE, TENSOR_SHARE, busy_percent, take_snapshot
from agents.drivers.simulator.arguments import (
    InvalidArgument,
    NotSupported,
    Refusal,
    number,
    require_version,
    target,
    write_handle,
)
from agents.drivers.simulator.node import Gpu
from agents.drivers.simulator.session import Device, EventSet, Sample, Session

NO_INSTANCE = 0xFFFFFFFF
EVENT_POLL_SECONDS = 0.02
_SHARES = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: 1.0,
    pynvml.NVML_GPM_METRIC_SM_UTIL: 1.0,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: TENSOR_SHARE,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: MEMORY_BANDWIDTH_SHARE,
}


def gpm_support(session: Session, handle: Any, reference: Any) -> None:
    struct = target(reference)
    require_version(struct, pynvml.NVML_GPM_SUPPORT_VERSION)
    struct.isSupportedDevice = int(session.model(session.device(handle).gpu).gpm)


def sample_alloc(session: Session, reference: Any) -> None:
    sample = Sample()
    session.samples.add(sample)
    write_handle(reference, session.handles.address(sample))


def sample_free(session: Session, handle: Any) -> None:
    sample = _sample(session, handle)
    session.samples.discard(sample)
    session.handles.forget(sample)


def _sample(session: Session, handle: Any) -> Sample:
    sample = session.handles.meaning(handle)
    if not isinstance(sample, Sample):
        raise InvalidArgument
    return sample


def sample_device(session: Session, handle: Any, sample_handle: Any) -> None:
    gpu = _gpm_gpu(session, handle)
    sample = _sample(session, sample_handle)
    sample.entity = (gpu.uuid, None)
    sample.snapshot = take_snapshot(tuple(row[0] for row in session.rows(Device(gpu))))


def sample_instance(session: Session, handle: Any, instance_id: Any, sample_handle: Any) -> None:
    gpu = _gpm_gpu(session, handle)
    sample = _sample(session, sample_handle)
    instance = next((known for known in gpu.instances if known.id == number(instance_id)), None)
    if instance is None:
        raise InvalidArgument
    pids = [row[0] for row in session.rows(Device(gpu)) if row[1] == instance.id]
    sample.entity, sample.snapshot = (gpu.uuid, instance.serial), take_snapshot(tuple(pids))


def _gpm_gpu(session: Session, handle: Any) -> Gpu:
    gpu = session.gpu(handle)
    if not session.model(gpu).gpm:
        raise NotSupported
    return gpu


def gpm_metrics(session: Session, reference: Any) -> None:
    """From two samples of one entity; each metric answers for itself."""
    struct = target(reference)
    require_version(struct, pynvml.NVML_GPM_METRICS_GET_VERSION)
    first, second = _sample(session, struct.sample1), _sample(session, struct.sample2)
    if first.snapshot is None or second.snapshot is None or first.entity != second.entity:
        raise InvalidArgument
    busy = busy_percent(first.snapshot, second.snapshot)
    for place in range(struct.numMetrics):
        metric = struct.metrics[place]
        share = _SHARES.get(metric.metricId)
        metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if share is None else pynvml.NVML_SUCCESS
        metric.value = busy * (share or 0.0)


def event_set_create(session: Session, reference: Any) -> None:
    write_handle(reference, session.handles.address(EventSet()))


def event_set_free(session: Session, handle: Any) -> None:
    session.handles.forget(_event_set(session, handle))


def _event_set(session: Session, handle: Any) -> EventSet:
    found = session.handles.meaning(handle)
    if not isinstance(found, EventSet):
        raise InvalidArgument
    return found


def register_events(session: Session, handle: Any, types: Any, set_handle: Any) -> None:
    """On whole GPUs only; what happened before is not told."""
    device = session.device(handle)
    if device.compute is not None or not number(types) & pynvml.nvmlEventTypeXidCriticalError:
        raise NotSupported
    _event_set(session, set_handle).since.setdefault(device.gpu.uuid, session.node.sequence)


def event_wait(session: Session, handle: Any, reference: Any, timeout: Any) -> None:
    """Does not hold the library while it waits."""
    deadline = time.monotonic() + number(timeout) / 1000
    pause = threading.Event()
    while not _next_event(session, handle, target(reference)):
        if time.monotonic() >= deadline:
            raise Refusal(pynvml.NVML_ERROR_TIMEOUT)
        pause.wait(EVENT_POLL_SECONDS)


def _next_event(session: Session, handle: Any, data: Any) -> bool:
    with session.lock:
        watched, node = _event_set(session, handle).since, session.node
        for event in node.events:
            if event.sequence > watched.get(event.gpu_uuid, node.sequence):
                watched[event.gpu_uuid] = event.sequence
                address = session.gpu_address(node.gpu(event.gpu_uuid))
                data.device = ctypes.cast(address, pynvml.c_nvmlDevice_t)
                data.eventType, data.eventData = pynvml.nvmlEventTypeXidCriticalError, event.xid
                data.gpuInstanceId = NO_INSTANCE if event.gpu_instance is None else event.gpu_instance
                data.computeInstanceId = NO_INSTANCE if event.compute_instance is None else event.compute_instance
                return True
    return False


SYMBOLS: dict[str, Callable[..., None]] = {
    "nvmlGpmQueryDeviceSupport": gpm_support,
    "nvmlGpmSampleAlloc": sample_alloc,
    "nvmlGpmSampleFree": sample_free,
    "nvmlGpmSampleGet": sample_device,
    "nvmlGpmMigSampleGet": sample_instance,
    "nvmlGpmMetricsGet": gpm_metrics,
    "nvmlEventSetCreate": event_set_create,
    "nvmlEventSetFree": event_set_free,
    "nvmlDeviceRegisterEvents": register_events,
    "nvmlEventSetWait_v2": event_wait,
}
