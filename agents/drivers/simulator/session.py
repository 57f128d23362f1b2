"""One process's view of a simulated node: handles, samples and event sets over the shared state."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pynvml

from agents.drivers.simulator.activity import ActivityMeter, Snapshot
from agents.drivers.simulator.arguments import Handles, InvalidArgument, Refusal
from agents.drivers.simulator.models import GpuModel, load_models
from agents.drivers.simulator.node import ComputeInstance, Gpu, GpuInstance, Node, NodeFile
from agents.drivers.simulator.processes import ProcessTable


class GpuKey(NamedTuple):
    uuid: str


class InstanceKey(NamedTuple):
    uuid: str
    serial: int


class ComputeKey(NamedTuple):
    uuid: str
    instance_serial: int
    serial: int


class MigKey(NamedTuple):
    """The MIG device of a compute instance; same numbers as its ComputeKey, another kind of handle."""

    uuid: str
    instance_serial: int
    serial: int
    kind: str = "device"


@dataclass(eq=False)
class Sample:
    """A GPM sample; ``entity`` is the GPU's UUID and the serial of the instance, None for the whole GPU."""

    entity: tuple[str, int | None] | None = None
    snapshot: Snapshot | None = None


@dataclass(eq=False)
class EventSet:
    """GPUs by UUID with the sequence number after which their events count."""

    since: dict[str, int] = field(default_factory=dict)


@dataclass
class Device:
    """What a device handle means: a GPU, and the instance when it is a MIG device."""

    gpu: Gpu
    instance: GpuInstance | None = None
    compute: ComputeInstance | None = None

    @property
    def uuid(self) -> str:
        return self.gpu.uuid if self.compute is None else self.compute.uuid


class Session:
    def __init__(self, path: Path, models: dict[str, GpuModel] | None = None) -> None:
        self.file = NodeFile(path)
        self.models = load_models() if models is None else models
        self.handles = Handles()
        self.processes = ProcessTable()
        self.meter = ActivityMeter()
        self.samples: set[Sample] = set()
        self.lock = threading.RLock()
        self.references = 0

    @property
    def node(self) -> Node:
        return self.file.read()

    def model(self, gpu: Gpu) -> GpuModel:
        return self.models[gpu.model]

    def device(self, handle: Any, node: Node | None = None) -> Device:
        """The GPU or MIG device behind a handle; INVALID_ARGUMENT when it was destroyed, GPU_IS_LOST when lost."""
        key = self.handles.meaning(handle)
        if not isinstance(key, GpuKey | MigKey):
            raise InvalidArgument
        gpu = self._gpu(key.uuid, node)
        if isinstance(key, GpuKey):
            return Device(gpu)
        instance = _with_serial(gpu.instances, key.instance_serial)
        return Device(gpu, instance, _with_serial(instance.compute, key.serial))

    def gpu(self, handle: Any, node: Node | None = None) -> Gpu:
        device = self.device(handle, node)
        if device.compute is not None:
            raise InvalidArgument
        return device.gpu

    def instance(self, handle: Any, node: Node | None = None) -> tuple[Gpu, GpuInstance]:
        key = self.handles.meaning(handle)
        if not isinstance(key, InstanceKey):
            raise InvalidArgument
        gpu = self._gpu(key.uuid, node)
        return gpu, _with_serial(gpu.instances, key.serial)

    def compute(self, handle: Any, node: Node | None = None) -> tuple[Gpu, GpuInstance, ComputeInstance]:
        key = self.handles.meaning(handle)
        if not isinstance(key, ComputeKey):
            raise InvalidArgument
        gpu = self._gpu(key.uuid, node)
        instance = _with_serial(gpu.instances, key.instance_serial)
        return gpu, instance, _with_serial(instance.compute, key.serial)

    def gpu_address(self, gpu: Gpu) -> int:
        return self.handles.address(GpuKey(gpu.uuid))

    def instance_address(self, gpu: Gpu, instance: GpuInstance) -> int:
        return self.handles.address(InstanceKey(gpu.uuid, instance.serial))

    def compute_address(self, gpu: Gpu, instance: GpuInstance, compute: ComputeInstance) -> int:
        return self.handles.address(ComputeKey(gpu.uuid, instance.serial, compute.serial))

    def mig_address(self, gpu: Gpu, instance: GpuInstance, compute: ComputeInstance) -> int:
        return self.handles.address(MigKey(gpu.uuid, instance.serial, compute.serial))

    def rows(self, device: Device, fresh: bool = False) -> list[tuple[int, int | None, int | None]]:
        """(process id, GPU instance id, compute instance id) of every process on the device."""
        gpu = device.gpu
        if not gpu.mig_current:
            return [(pid, None, None) for pid in self.processes.holders(gpu.uuid, fresh)]
        return [
            (pid, instance.id, compute.id)
            for instance in gpu.instances
            for compute in instance.compute
            if device.compute is None or compute.serial == device.compute.serial
            for pid in self.processes.holders(compute.uuid, fresh)
        ]

    def _gpu(self, uuid: str, node: Node | None) -> Gpu:
        try:
            gpu = (node or self.node).gpu(uuid)
        except KeyError:
            raise InvalidArgument from None
        if gpu.lost:
            raise Refusal(pynvml.NVML_ERROR_GPU_IS_LOST)
        return gpu


def _with_serial(things: list[Any], serial: int) -> Any:
    for thing in things:
        if thing.serial == serial:
            return thing
    raise InvalidArgument
