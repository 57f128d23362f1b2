"""The peers of placement on demand, each as good as it can be made, and free repacking as the limit.

All see the same requests and accept whatever they have a span for. A whole-GPU gang goes to one node.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.capacity import capacity_of
from scheduler.placement.ondemand import OnDemand
from scheduler.placement.tables import GpuTables, gpu_tables
from tests.bench.placement.demand import SHAPES, SLICES, Request

FIRST_FIT = "first-fit"
FULL = (1 << SLICES) - 1
# Of two GPUs that lose as much the fuller one: it keeps whole GPUs free.
FULLER = 1e-3
Worth = NDArray[np.float64]
NOTHING = np.zeros(1 << SLICES)


class Peer:
    """A placer that looks at the held slices of each GPU: the lowest score, then the first GPU, then the first start.
    ``scores`` are by shape, set of held slices and legal span."""

    def __init__(self, name: str, scores: list[Worth], gpus: int, gpus_per_node: int) -> None:
        tables = gpu_tables(SHAPES, SLICES)
        self.name = name
        self.spans = tables.spans
        self.choice = [by_set.argmin(axis=1) for by_set in scores]
        self.scores = [by_set.min(axis=1) for by_set in scores]
        self.masks = np.zeros(gpus, dtype=np.int64)
        self.gpus_per_node = gpus_per_node
        self.holds: dict[int, list[tuple[int, int]]] = {}

    def place(self, key: int, request: Request) -> bool:
        found = self._gang(request.ranks) if request.ranks > 1 else self._one(request.row)
        for position, span in found:
            self.masks[position] |= span
        if found:
            self.holds[key] = found
        return bool(found)

    def release(self, key: int) -> None:
        for position, span in self.holds.pop(key):
            self.masks[position] &= ~span

    def _one(self, row: int) -> list[tuple[int, int]]:
        scores = self.scores[row][self.masks]
        position = int(scores.argmin())
        if scores[position] == np.inf:
            return []
        return [(position, self.spans[row][self.choice[row][self.masks[position]]])]

    def _gang(self, ranks: int) -> list[tuple[int, int]]:
        free = (self.masks.reshape(-1, self.gpus_per_node) == 0).sum(axis=1)
        nodes = np.flatnonzero(free >= ranks)
        if not len(nodes):
            return []
        first = self._node(nodes, free[nodes]) * self.gpus_per_node
        empty = np.flatnonzero(self.masks[first : first + self.gpus_per_node] == 0)[:ranks]
        return [(first + int(at), FULL) for at in empty]

    def _node(self, nodes: NDArray[np.intp], free: NDArray[np.intp]) -> int:
        """The node that has the fewest free GPUs beside; for first-fit the first, for worst-fit the freest."""
        if self.name == FIRST_FIT:
            return int(nodes[0])
        return int(nodes[free.argmax() if self.name == "worst-fit" else free.argmin()])


class RandomPeer(Peer):
    """Any GPU with a free span, and any of its spans."""

    def __init__(self, gpus: int, gpus_per_node: int, seed: int) -> None:
        tables = gpu_tables(SHAPES, SLICES)
        super().__init__("random", _scores(tables, NOTHING, NOTHING), gpus, gpus_per_node)
        self.chance = np.random.default_rng(seed)
        self.open_spans = tables.open_spans

    def _one(self, row: int) -> list[tuple[int, int]]:
        positions = np.flatnonzero(self.scores[row][self.masks] < np.inf)
        if not len(positions):
            return []
        position = int(self.chance.choice(positions))
        return [(position, int(self.chance.choice(self.open_spans[row][self.masks[position]])))]

    def _node(self, nodes: NDArray[np.intp], free: NDArray[np.intp]) -> int:
        return int(self.chance.choice(nodes))


class Ours:
    """The product's placer. It does not know what comes, nor from which mix."""

    name = "berth"

    def __init__(self, gpus: int, gpus_per_node: int) -> None:
        fleet = [(number, number // gpus_per_node, number % gpus_per_node) for number in range(gpus)]
        self.pool = OnDemand(fleet, SHAPES, SLICES)

    def place(self, key: int, request: Request) -> bool:
        if request.ranks > 1:
            return bool(self.pool.place_gang(key, request.ranks, request.start, request.end))
        return self.pool.place(key, SHAPES[request.row].name, request.start, request.end) is not None

    def release(self, key: int) -> None:
        self.pool.release(key)


class Repacking:
    """Accepts whatever could be packed if all that runs could be moved at will, also between nodes."""

    name = "oracle"

    def __init__(self, gpus: int) -> None:
        self.capacity = capacity_of(SHAPES, SLICES)
        self.gpus = gpus
        self.counts = [0] * len(SHAPES)
        self.holds: dict[int, tuple[int, int]] = {}

    def place(self, key: int, request: Request) -> bool:
        self.counts[request.row] += request.ranks
        if not self.capacity.fits(self.counts, self.gpus):
            self.counts[request.row] -= request.ranks
            return False
        self.holds[key] = (request.row, request.ranks)
        return True

    def release(self, key: int) -> None:
        row, ranks = self.holds.pop(key)
        self.counts[row] -= ranks


class WholeGpus:
    """Gives everybody whole GPUs, as is done where GPUs are not cut; a gang may be spread over nodes."""

    name = "whole GPUs"

    def __init__(self, gpus: int) -> None:
        self.free = gpus
        self.holds: dict[int, int] = {}

    def place(self, key: int, request: Request) -> bool:
        if request.ranks > self.free:
            return False
        self.free -= request.ranks
        self.holds[key] = request.ranks
        return True

    def release(self, key: int) -> None:
        self.free += self.holds.pop(key)


Placer = Peer | Ours | Repacking | WholeGpus


def placers(
    mix: Sequence[float], gpus: int, gpus_per_node: int, seed: int, *, judged_only: bool = False
) -> list[Placer]:
    """All of them on an empty fleet each: the peers, ours, the limit. ``mix``, which FGD weighs by, is in the order of
    the shapes. ``judged_only``: of the peers first-fit alone, by which targets are told."""
    tables = gpu_tables(SHAPES, SLICES)
    held = (SLICES - tables.free).astype(float)
    shares = np.array(mix, dtype=float) / sum(mix)
    spans_free = np.array([[len(spans) for spans in by_set] for by_set in tables.open_spans]).sum(axis=0).astype(float)
    worths: dict[str, tuple[Worth, Worth]] = {
        FIRST_FIT: (NOTHING, NOTHING),
        "worst-fit": (NOTHING, held),
        "best-fit": (NOTHING, -held),
        "mcc": (spans_free, -FULLER * held),
        "fgd": (-(shares @ tables.stranded), -FULLER * held),
        "fgd-uniform": (-tables.stranded.mean(axis=0), -FULLER * held),
    }
    peers = [Peer(name, _scores(tables, *worth), gpus, gpus_per_node) for name, worth in worths.items()]
    judged: list[Placer] = [Ours(gpus, gpus_per_node), Repacking(gpus)]
    if judged_only:
        return [peers[0], *judged]
    return [RandomPeer(gpus, gpus_per_node, seed), *peers, *judged]


def _scores(tables: GpuTables, worth: Worth, by_set: Worth) -> list[Worth]:
    """By shape, set of held slices and span: what ``worth`` loses, and ``by_set``; infinite where it is not free."""
    losses = [tables.losses(worth, row) for row in range(len(SHAPES))]
    return [np.where(np.isnan(lost), np.inf, lost + by_set[:, None]) for lost in losses]
