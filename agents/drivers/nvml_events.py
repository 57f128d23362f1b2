"""XID events through NVML: registered on whole GPUs, since MIG devices tell none, and blamed on the slice they name."""

import logging
from typing import Any

import pynvml

from agents.drivers.contract import HealthEvent

log = logging.getLogger(__name__)

WHOLE_GPU = 0xFFFFFFFF
EVENTS_AT_ONCE = 256


class EventWatch:
    """NVML keeps no old events, so a GPU is registered as soon as it is seen. Not thread-safe."""

    def __init__(self) -> None:
        self._set: Any = None
        self._watched: set[str] = set()
        self._starts: dict[tuple[str, int], int] = {}

    def watch(self, uuid: str) -> None:
        """Registers the GPU once; a device without events is only logged."""
        if uuid in self._watched:
            return
        try:
            if self._set is None:
                self._set = pynvml.nvmlEventSetCreate()
            gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except pynvml.NVMLError as error:
            log.warning("no health events from %s: %s", uuid, error)
        self._watched.add(uuid)

    def remember(self, uuid: str, instance_id: int, start: int) -> None:
        """Where an instance sits, for an event that is read after the instance has gone."""
        self._starts[uuid, instance_id] = start

    def read(self) -> tuple[HealthEvent, ...]:
        events = []
        for _ in range(EVENTS_AT_ONCE if self._set is not None else 0):
            try:
                data = pynvml.nvmlEventSetWait(self._set, 0)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:
                    log.warning("health events cannot be read: %s", error)
                break
            event = self._understand(data)
            if event is not None:
                events.append(event)
        return tuple(events)

    def close(self) -> None:
        if self._set is not None:
            pynvml.nvmlEventSetFree(self._set)
            self._set = None

    def _understand(self, data: Any) -> HealthEvent | None:
        """None for an event of an instance that is gone and was never seen: it is nobody's."""
        try:
            uuid = pynvml.nvmlDeviceGetUUID(data.device)
        except pynvml.NVMLError as error:
            log.warning("XID %s on a GPU that cannot be read: %s", data.eventData, error)
            return None
        if data.gpuInstanceId == WHOLE_GPU:
            return HealthEvent(uuid, data.eventData)
        start = self._start_of(data.device, uuid, data.gpuInstanceId)
        if start is None:
            log.warning("XID %s on %s, instance %s, which is gone", data.eventData, uuid, data.gpuInstanceId)
            return None
        return HealthEvent(uuid, data.eventData, start)

    def _start_of(self, gpu: Any, uuid: str, instance_id: int) -> int | None:
        """Read from the device: an instance's place does not follow from its id."""
        try:
            instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu, instance_id)
            return pynvml.nvmlGpuInstanceGetInfo(instance).placement.start
        except pynvml.NVMLError:
            return self._starts.get((uuid, instance_id))
