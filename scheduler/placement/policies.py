"""Ways to place what begins now, to be compared on the same demand: as Berth does, first fit, and without cutting GPUs.

Each holds all ranks of an ask under one key, or none.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduler.placement.geometry import Shape
from scheduler.placement.ondemand import OnDemand
from scheduler.placement.tables import gpu_tables

RANKS_MOST = 1024


@dataclass(frozen=True)
class Fleet:
    """``gpus`` are (id, node id, index); all have the same number of slices and take the same shapes."""

    gpus: tuple[tuple[int, int, int], ...]
    shapes: tuple[Shape, ...]
    slices: int


class Policy(Protocol):
    def place(self, key: int, shape: str, ranks: int, now: float, until: float) -> bool: ...

    def release(self, key: int) -> None: ...


class Worth:
    """What takes least of what the GPUs are worth to others; whole GPUs on one node where one has them."""

    def __init__(self, fleet: Fleet) -> None:
        self._pool = OnDemand(fleet.gpus, fleet.shapes, fleet.slices)
        self._whole = {shape.name for shape in fleet.shapes if shape.size == fleet.slices}
        self._parts: dict[int, list[int]] = {}

    def place(self, key: int, shape: str, ranks: int, now: float, until: float) -> bool:
        parts = [key * RANKS_MOST + rank for rank in range(ranks)]
        if ranks > 1 and shape in self._whole and self._pool.place_gang(parts[0], ranks, now, until):
            self._parts[key] = parts[:1]
            return True
        for done, part in enumerate(parts):
            if self._pool.place(part, shape, now, until) is None:
                for placed in parts[:done]:
                    self._pool.release(placed)
                return False
        self._parts[key] = parts
        return True

    def release(self, key: int) -> None:
        for part in self._parts.pop(key):
            self._pool.release(part)


class FirstFit:
    """The first GPU that has a legal span free, and its first."""

    def __init__(self, fleet: Fleet) -> None:
        self._tables = gpu_tables(fleet.shapes, fleet.slices)
        self._held = np.zeros(len(fleet.gpus), dtype=np.int64)
        self._counts = np.zeros((len(fleet.shapes), len(fleet.gpus)), dtype=np.int64)
        self._holds: dict[int, list[tuple[int, int, int]]] = {}

    def place(self, key: int, shape: str, ranks: int, now: float, until: float) -> bool:
        row = self._tables.position[shape]
        self._holds[key] = []
        for _ in range(ranks):
            counts = self._counts[list(self._tables.counted_with.get(row, (row,)))].sum(axis=0)
            fits = (self._tables.room[row][self._held] > 0) & (counts < self._tables.shapes[row].max_count)
            position = int(fits.argmax())
            if not fits[position]:
                self.release(key)
                return False
            span = self._tables.open_spans[row][int(self._held[position])][0]
            self._held[position] |= span
            self._counts[row, position] += 1
            self._holds[key].append((row, position, span))
        return True

    def release(self, key: int) -> None:
        for row, position, span in self._holds.pop(key):
            self._held[position] &= ~span
            self._counts[row, position] -= 1


class WholeGpus:
    """Every rank gets a GPU of its own, whatever it asked for."""

    def __init__(self, fleet: Fleet) -> None:
        self._free = len(fleet.gpus)
        self._holds: dict[int, int] = {}

    def place(self, key: int, shape: str, ranks: int, now: float, until: float) -> bool:
        if ranks > self._free:
            return False
        self._free -= ranks
        self._holds[key] = ranks
        return True

    def release(self, key: int) -> None:
        self._free += self._holds.pop(key)


POLICIES: dict[str, type[Worth] | type[FirstFit] | type[WholeGpus]] = {
    "berth": Worth,
    "first-fit": FirstFit,
    "whole": WholeGpus,
}
