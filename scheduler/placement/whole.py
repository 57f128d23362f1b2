"""Which whole GPUs a group takes: near each other first by node and rack, then by the ways within a node."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations

from scheduler.placement.nearness import spread_over
from scheduler.placement.topology import Topology, is_by_nvlink

# So many choices of GPUs of one node are all looked at; beyond, they grow from each GPU.
CHOICES_MOST = 5000
NODES_LOOKED_AT = 64


@dataclass(frozen=True, order=True)
class FreeGpu:
    gpu_id: int
    node_id: int
    index: int


def whole_gpus(
    ranks: int, free: Iterable[FreeGpu], topology: Topology, score: Callable[[FreeGpu], float]
) -> list[FreeGpu]:
    """All ranks or none, in the order of rack, node and index. ``score``: of two that are as near, the lower is taken;
    asked only where there is a choice."""
    nodes: defaultdict[int, list[FreeGpu]] = defaultdict(list)
    for gpu in sorted(free, key=lambda gpu: (gpu.node_id, gpu.index, gpu.gpu_id)):
        nodes[gpu.node_id].append(gpu)
    shares = spread_over(ranks, {node: len(gpus) for node, gpus in nodes.items()}, topology)
    if len(shares) == 1:
        shares = {_best_joined(ranks, nodes, topology): ranks}
    chosen = [gpu for node, count in shares.items() for gpu in nearest(count, nodes[node], topology, score)]
    return sorted(chosen, key=lambda gpu: (topology.rack(gpu.node_id), gpu.node_id, gpu.index, gpu.gpu_id))


def nearest(
    count: int, gpus: list[FreeGpu], topology: Topology, score: Callable[[FreeGpu], float]
) -> tuple[FreeGpu, ...]:
    """So many GPUs of one node with the shortest longest way, then the shortest ways, then the lowest scores."""
    if count >= len(gpus):
        return tuple(gpus)
    scores = {gpu: score(gpu) for gpu in gpus}
    if not any(gpu.gpu_id in topology.ways for gpu in gpus):
        return tuple(sorted(gpus, key=lambda gpu: (scores[gpu], gpu.index, gpu.gpu_id))[:count])

    def cost(some: tuple[FreeGpu, ...]) -> tuple[int, int, float, list[int]]:
        indexes = sorted(gpu.index for gpu in some)
        return *topology.spread(gpu.gpu_id for gpu in some), sum(scores[gpu] for gpu in some), indexes

    if math.comb(len(gpus), count) <= CHOICES_MOST:
        return min(combinations(gpus, count), key=cost)
    return min((_grown(gpu, count, gpus, topology) for gpu in gpus), key=cost)


def _grown(first: FreeGpu, count: int, gpus: list[FreeGpu], topology: Topology) -> tuple[FreeGpu, ...]:
    some = [first]
    while len(some) < count:
        others = (gpu for gpu in gpus if gpu not in some)
        some.append(min(others, key=lambda gpu: (topology.spread([*(one.gpu_id for one in some), gpu.gpu_id]), gpu)))
    return tuple(some)


def _best_joined(ranks: int, nodes: dict[int, list[FreeGpu]], topology: Topology) -> int:
    """Of the nodes that take all: the fullest on which NVLinks join them, or else the fullest with the best ways."""

    def cost(node: int) -> tuple[bool, int, tuple[int, int], int]:
        some = nearest(ranks, nodes[node], topology, lambda _gpu: 0.0)
        ways = topology.spread(gpu.gpu_id for gpu in some)
        return not is_by_nvlink(ways[0]), len(nodes[node]), ways, node

    fitting = sorted((node for node in nodes if len(nodes[node]) >= ranks), key=lambda node: (len(nodes[node]), node))
    if not any(gpu.gpu_id in topology.ways for node in fitting for gpu in nodes[node]):
        return fitting[0]
    return min(fitting[:NODES_LOOKED_AT], key=cost)
