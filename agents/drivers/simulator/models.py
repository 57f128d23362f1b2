"""GPU models of the simulated library, read from the data files in ``models/``; each file names its source."""

import functools
from pathlib import Path
from typing import Literal

import msgspec
import pynvml

FOLDER = Path(__file__).parent / "models"

Placement = tuple[int, int]


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """Engines of an instance, as nvidia-smi counts them."""

    copy_engines: int
    decoders: int
    encoders: int
    jpeg: int
    ofa: int


class _Shape(Engines, frozen=True, kw_only=True):
    name: str
    index: int
    profile_id: int
    slices: int
    max_count: int
    placements: tuple[str, ...]

    @property
    def spans(self) -> tuple[Placement, ...]:
        """Legal places as (start, size)."""
        return tuple((int(start), int(size)) for start, size in (text.split(":") for text in self.placements))


class ComputeProfile(_Shape, frozen=True, kw_only=True):
    """A compute instance profile; ``multiprocessors`` None means its share of the GPU instance's."""

    multiprocessors: int | None = None


class InstanceProfile(_Shape, frozen=True, kw_only=True):
    """A GPU instance profile. ``index`` is NVML's enum, ``profile_id`` the number every other call takes."""

    memory_mib: int
    multiprocessors: int
    compute: tuple[ComputeProfile, ...]

    def compute_multiprocessors(self, profile: ComputeProfile) -> int:
        if profile.multiprocessors is not None:
            return profile.multiprocessors
        return self.multiprocessors * profile.slices // self.slices


class Board(msgspec.Struct, frozen=True):
    """Values that have no measured source are named as such in the file."""

    power_limit_watts: int
    power_idle_watts: int
    clock_max_mhz: int
    clock_idle_mhz: int
    source: str


class Ways(msgspec.Struct, frozen=True):
    """How GPUs of one model are joined in a machine. ``nvlinks`` of a GPU end at switches that join all, or at the
    ``pair`` (0 and 1, 2 and 3 and so on); ``pcie`` gives NVML's level for GPUs within the same block of so many."""

    nvlinks: int
    nvlinks_end_at: Literal["", "switch", "pair"]
    pcie: tuple[tuple[int, int], ...]
    source: str

    def level(self, one: int, other: int) -> int:
        within = (level for block, level in self.pcie if one // block == other // block)
        return next(within, pynvml.NVML_TOPOLOGY_SYSTEM)


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU model; without profiles it has no MIG."""

    key: str
    product: str
    source: str
    note: str
    memory_mib: int
    memory_slices: int
    compute_slices: int
    mode_needs_reset: bool
    mode_survives_reboot: bool
    gpm: bool
    pci_device_id: int
    board: Board
    ways: Ways
    profiles: tuple[InstanceProfile, ...]

    def by_id(self, profile_id: int) -> InstanceProfile | None:
        return next((profile for profile in self.profiles if profile.profile_id == profile_id), None)

    def by_index(self, index: int) -> InstanceProfile | None:
        return next((profile for profile in self.profiles if profile.index == index), None)


@functools.cache
def load_models() -> dict[str, GpuModel]:
    """Every shipped model by its key."""
    found = [msgspec.json.decode(path.read_bytes(), type=GpuModel) for path in sorted(FOLDER.glob("*.json"))]
    return {model.key: model for model in found}
