"""What a device is doing, through NVML. A value that the device or its driver does not tell is None, never 0."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

from agents.drivers.contract import DeviceUse
from agents.drivers.nvml_mig import process_ids
from agents.drivers.nvml_profiles import MIB
from agents.protocol import GpuSample

log = logging.getLogger(__name__)

Value = TypeVar("Value")

# NVML wants two GPM samples at least this far apart.
GPM_SECONDS = 0.1
GPM_METRICS = (
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
)


def measured(read: Callable[[], Value]) -> Value | None:
    """None when the driver cannot tell."""
    try:
        return read()
    except pynvml.NVMLError as error:
        log.debug("not measurable: %s", error)
        return None


@dataclass(frozen=True)
class GpmValues:
    """Percent of the sampled device since the last sample."""

    busy: float | None = None
    tensor: float | None = None
    memory_bandwidth: float | None = None


@dataclass
class _Kept:
    sample: Any
    taken_at: float
    values: GpmValues


GpmKey = tuple[str, int | None]


class GpmSampler:
    """Keeps one sample for each device to compare the next with. A kept sample is a hold on the instance: drop it
    before the instance is to be cleared. Keys are a GPU's UUID and an instance id, None for the whole GPU."""

    def __init__(self) -> None:
        self._kept: dict[GpmKey, _Kept] = {}
        self._supported: dict[str, bool] = {}

    def values(self, gpu: Any, key: GpmKey) -> GpmValues:
        """Since the last call for this key; nothing on the first one or where GPM does not exist."""
        if not self._is_supported(gpu, key[0]):
            return GpmValues()
        kept = self._kept.get(key)
        now = time.monotonic()
        if kept is not None and now - kept.taken_at < GPM_SECONDS:
            return kept.values
        sample = measured(lambda: _take_sample(gpu, key[1]))
        values = GpmValues()
        if kept is not None and sample is not None:
            values = measured(lambda: _compare(kept.sample, sample)) or values
        self.drop(key)
        if sample is not None:
            self._kept[key] = _Kept(sample, now, values)
        return values

    def drop(self, key: GpmKey) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            measured(lambda: pynvml.nvmlGpmSampleFree(kept.sample))

    def keep_only(self, gpu_uuid: str, instance_ids: set[int]) -> None:
        """Forget the instances of this GPU that are gone."""
        for key in list(self._kept):
            if key[0] == gpu_uuid and key[1] is not None and key[1] not in instance_ids:
                self.drop(key)

    def close(self) -> None:
        for key in list(self._kept):
            self.drop(key)

    def _is_supported(self, gpu: Any, uuid: str) -> bool:
        if uuid not in self._supported:
            self._supported[uuid] = has_gpm(gpu)
        return self._supported[uuid]


def has_gpm(gpu: Any) -> bool:
    answer = measured(lambda: pynvml.nvmlGpmQueryDeviceSupport(gpu))
    return answer is not None and bool(answer.isSupportedDevice)


def tells_utilization(gpu: Any, mig_enabled: bool) -> bool:
    """Of what is leased of it: that of a slice exists only as GPM."""
    return has_gpm(gpu) if mig_enabled else _utilization(gpu) is not None


def _take_sample(gpu: Any, instance_id: int | None) -> Any:
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        if instance_id is None:
            return pynvml.nvmlGpmSampleGet(gpu, sample)
        return pynvml.nvmlGpmMigSampleGet(gpu, instance_id, sample)
    except pynvml.NVMLError:
        pynvml.nvmlGpmSampleFree(sample)
        raise


def _compare(earlier: Any, later: Any) -> GpmValues:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.sample1, request.sample2, request.numMetrics = earlier, later, len(GPM_METRICS)
    for place, metric_id in enumerate(GPM_METRICS):
        request.metrics[place].metricId = metric_id
    pynvml.nvmlGpmMetricsGet(request)
    return GpmValues(*(_percent(request.metrics[place]) for place in range(len(GPM_METRICS))))


def _percent(metric: Any) -> float | None:
    if metric.nvmlReturn != pynvml.NVML_SUCCESS or metric.value != metric.value:
        return None
    return min(100.0, max(0.0, metric.value))


def instance_id_of(mig: Any) -> int | None:
    return measured(lambda: pynvml.nvmlDeviceGetGpuInstanceId(mig))


def use_of_instance(mig: Any, gpu: Any, gpu_uuid: str, gpm: GpmSampler) -> DeviceUse:
    """Of a MIG device. Its utilization exists only as GPM, its power not at all."""
    instance_id = instance_id_of(mig)
    values = GpmValues() if instance_id is None else gpm.values(gpu, (gpu_uuid, instance_id))
    used, total = _memory_mib(mig)
    return DeviceUse(
        utilization=values.busy,
        tensor=values.tensor,
        memory_bandwidth=values.memory_bandwidth,
        memory_used_mib=used,
        memory_total_mib=total,
        pids=measured(lambda: process_ids(mig)),
    )


def use_of_gpu(gpu: Any, gpu_uuid: str, gpm: GpmSampler) -> DeviceUse:
    """Of a whole GPU with MIG off; the board's power is its own."""
    values = gpm.values(gpu, (gpu_uuid, None))
    used, total = _memory_mib(gpu)
    return DeviceUse(
        utilization=_utilization(gpu),
        tensor=values.tensor,
        memory_bandwidth=values.memory_bandwidth,
        memory_used_mib=used,
        memory_total_mib=total,
        power_watts=_power_watts(gpu),
        pids=measured(lambda: process_ids(gpu)),
    )


def board_sample(gpu: Any, uuid: str) -> GpuSample:
    return GpuSample(
        uuid=uuid,
        utilization=_utilization(gpu),
        memory_used_mib=_memory_mib(gpu)[0],
        power_watts=_power_watts(gpu),
        temperature_celsius=measured(lambda: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)),
        clock_mhz=measured(lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)),
    )


def _utilization(gpu: Any) -> float | None:
    rates = measured(lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu))
    return None if rates is None else min(100.0, float(rates.gpu))


def _memory_mib(device: Any) -> tuple[int | None, int | None]:
    info = measured(lambda: pynvml.nvmlDeviceGetMemoryInfo(device))
    return (None, None) if info is None else (info.used // MIB, info.total // MIB)


def _power_watts(gpu: Any) -> float | None:
    milliwatts = measured(lambda: pynvml.nvmlDeviceGetPowerUsage(gpu))
    return None if milliwatts is None else milliwatts / 1000
