"""How near GPUs are to each other: ways within a node, racks of nodes. What nobody knows counts as far."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# By the words of the agents. NVLinks, however few, are nearer than any PCIe.
PCIE_DISTANCES = {"PIX": 100, "PXB": 200, "PHB": 300, "NODE": 400, "SYS": 500}
UNKNOWN_DISTANCE = 600
NVLINK_WORD = "NV"
NVLINKS_MOST = 99


class Level(StrEnum):
    """The smallest part of a pool that holds all ranks."""

    NODE = "node"
    RACK = "rack"
    POOL = "pool"


@dataclass(frozen=True)
class Topology:
    """``racks``: names by node id; a node that has none is in nobody's rack. ``ways``: distances by GPU id and GPU id,
    as :func:`distance_of` gives them."""

    racks: Mapping[int, str] = field(default_factory=dict)
    ways: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    def rack(self, node_id: int) -> str:
        return self.racks.get(node_id, "")

    def distance(self, one: int, other: int) -> int:
        return self.ways.get(one, {}).get(other, UNKNOWN_DISTANCE)

    def level(self, node_ids: Collection[int]) -> Level:
        nodes = set(node_ids)
        if len(nodes) <= 1:
            return Level.NODE
        racks = {self.rack(node) for node in nodes}
        return Level.RACK if len(racks) == 1 and "" not in racks else Level.POOL

    def spread(self, gpus: Iterable[int]) -> tuple[int, int]:
        """The longest way between any two of these GPUs of a node, and all ways together: less is better."""
        some = tuple(gpus)
        ways = [self.distance(one, other) for place, one in enumerate(some) for other in some[place + 1 :]]
        return max(ways, default=0), sum(ways)


NOTHING_KNOWN = Topology()


def distance_of(word: str) -> int:
    """NV12 is nearer than NV4, and that than PIX."""
    if word.startswith(NVLINK_WORD) and word[len(NVLINK_WORD) :].isdigit():
        return max(1, NVLINKS_MOST - int(word[len(NVLINK_WORD) :]))
    return PCIE_DISTANCES.get(word, UNKNOWN_DISTANCE)


def is_by_nvlink(distance: int) -> bool:
    return distance <= NVLINKS_MOST
