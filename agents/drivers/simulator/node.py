"""The state of a simulated node: one JSON file that outlives every process that looks at it.

Readers look which file the name means and decode it only when it is another one. Writers hold a lock on
``<file>.lock``, read, change and rename a new file into place, so that a reader never sees half a state and two
writers never lose a change.
"""

import contextlib
import fcntl
import os
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agents.drivers.simulator.models import load_models
from agents.drivers.simulator.processes import kill_holders

EVENTS_KEPT = 200
DRIVER_VERSION = "580.95.05"


class ComputeInstance(msgspec.Struct):
    id: int
    profile_id: int
    start: int
    uuid: str
    serial: int


class GpuInstance(msgspec.Struct):
    """``serial`` is never used twice on a node: a handle to a destroyed instance cannot meet a new one."""

    id: int
    profile_id: int
    start: int
    size: int
    serial: int
    compute: list[ComputeInstance] = []

    @property
    def span(self) -> set[int]:
        return set(range(self.start, self.start + self.size))


class Gpu(msgspec.Struct):
    """``clients`` are daemons that hold the device with no process to show; ``swapped`` mirrors instance ids."""

    index: int
    uuid: str
    model: str
    pci_bus_id: str
    mig_current: bool = False
    mig_pending: bool = False
    lost: bool = False
    swapped: bool = False
    clients: list[str] = []
    instances: list[GpuInstance] = []

    @property
    def device_uuids(self) -> list[str]:
        return [self.uuid, *(compute.uuid for instance in self.instances for compute in instance.compute)]


class Event(msgspec.Struct):
    sequence: int
    gpu_uuid: str
    xid: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


class Fault(msgspec.Struct):
    """The next ``times`` calls of a symbol wait ``seconds``, then answer ``code`` and do nothing; 0 is SUCCESS. With
    no code they are only late."""

    code: int | None = None
    times: int = 1
    seconds: float = 0.0


class Node(msgspec.Struct):
    """``root`` False refuses what needs privilege; ``hidden_symbols`` are what an old driver lacks."""

    name: str
    boot_id: str
    driver_version: str = DRIVER_VERSION
    root: bool = True
    mig_on_boot: list[int] = []
    hidden_symbols: list[str] = []
    faults: dict[str, Fault] = {}
    serial: int = 0
    sequence: int = 0
    events: list[Event] = []
    gpus: list[Gpu] = []

    def gpu(self, which: str) -> Gpu:
        """By UUID or by index; KeyError when there is none."""
        for gpu in self.gpus:
            if which in (gpu.uuid, str(gpu.index)):
                return gpu
        raise KeyError(which)

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def tell(self, event: Event) -> None:
        self.sequence += 1
        event.sequence = self.sequence
        self.events = [*self.events[-EVENTS_KEPT + 1 :], event]


_decoder = msgspec.json.Decoder(Node)


class _HeldFile:
    """A file that is never written again, kept open: as long as it is, no other file can have its inode."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._identity = os.fstat(self._descriptor)
        weakref.finalize(self, os.close, self._descriptor)

    def is_at(self, path: Path) -> bool:
        return os.path.samestat(path.stat(), self._identity)

    def content(self) -> bytes:
        return os.read(self._descriptor, self._identity.st_size)


class NodeFile:
    """The file of one node. Thread-safe; any number of processes may share the file."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._guard = threading.RLock()
        self._held: _HeldFile | None = None
        self._node: Node | None = None

    def read(self) -> Node:
        """The state now, shared with other readers: not to be changed."""
        with self._guard:
            if self._node is None or self._held is None or not self._held.is_at(self.path):
                held = _HeldFile(self.path)
                self._node, self._held = _decoder.decode(held.content()), held
            return self._node

    @contextlib.contextmanager
    def change(self) -> Iterator[Node]:
        """A private copy to change; written when the block ends well, forgotten when it raises."""
        with self._guard, open(f"{self.path}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            node = _decoder.decode(self.path.read_bytes())
            yield node
            write_node(self.path, node)


def write_node(path: Path, node: Node) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(node), indent=1))
    fresh.replace(path)


def create_node(
    path: Path, name: str, gpus: Sequence[dict[str, Any]], mig_on_boot: Sequence[int] | None = None
) -> Node:
    """Write a new node. A GPU is ``{"model": "H100-80GB", "mig": True}``; its UUID follows from the file, the node's
    name and its index, so that two stacks on one machine never share a GPU. ``mig_on_boot`` are the indices on which
    an administrator's unit turns MIG on at each boot; without it, those that have it now."""
    path = Path(path)
    made = [_new_gpu(f"{path.resolve()}/{name}/{index}", index, wanted) for index, wanted in enumerate(gpus)]
    if mig_on_boot is None:
        mig_on_boot = [gpu.index for gpu in made if gpu.mig_current]
    node = Node(name=name, boot_id=str(uuid.uuid4()), mig_on_boot=list(mig_on_boot), gpus=made)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_node(path, node)
    return node


def _new_gpu(seed: str, index: int, wanted: dict[str, Any]) -> Gpu:
    model = load_models().get(wanted["model"])
    if model is None:
        raise ValueError(f"There is no model {wanted['model']}; there are {', '.join(load_models())}.")
    mig = bool(wanted.get("mig", False))
    if mig and not model.profiles:
        raise ValueError(f"{model.key} has no MIG.")
    return Gpu(
        index=index,
        uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, seed)}",
        model=model.key,
        pci_bus_id=f"00000000:{0x17 + 0x10 * index & 0xFF:02X}:00.0",
        mig_current=mig,
        mig_pending=mig,
        swapped=bool(wanted.get("swapped", False)),
    )


def reboot(file: NodeFile) -> None:
    """A new boot id; instances, clients, losses and the processes on the devices are gone. Ampere keeps its MIG mode,
    Hopper does not, except where ``mig_on_boot`` names the GPU."""
    models = load_models()
    with file.change() as node:
        kill_holders({uuid for gpu in node.gpus for uuid in gpu.device_uuids})
        node.boot_id = str(uuid.uuid4())
        for gpu in node.gpus:
            gpu.instances, gpu.clients, gpu.lost = [], [], False
            kept = gpu.mig_pending and models[gpu.model].mode_survives_reboot
            gpu.mig_current = gpu.mig_pending = kept or gpu.index in node.mig_on_boot
