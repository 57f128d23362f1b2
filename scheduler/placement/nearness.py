"""Which nodes a group of whole GPUs goes to: the smallest level that holds it, and there the fewest nodes."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from scheduler.placement.topology import Topology

Counts = dict[int, int]


class Sizes(NamedTuple):
    """How many nodes are needed at least, and how many free GPUs those that leave least over have, of which sizes."""

    nodes: int
    total: int
    sizes: Counter[int]


def spread_over(ranks: int, free: Mapping[int, int], topology: Topology) -> Counts:
    """How many of the ranks each node takes, by node id; {} exactly when they do not fit.

    ``free``: GPUs by node. Ties go to what leaves the fewest GPUs over, then to the lowest ids, whatever the order.
    """
    free = {node: count for node, count in sorted(free.items()) if count > 0}
    if ranks < 1 or sum(free.values()) < ranks:
        return {}
    enough = [node for node, count in free.items() if count >= ranks]
    if enough:
        return {min(enough, key=lambda node: (free[node], node)): ranks}
    within = _best_rack(ranks, free, topology)
    pick = fewest_nodes(ranks, within)
    return _shares(ranks, within, pick.sizes, topology)


def fewest_nodes(ranks: int, free: Mapping[int, int]) -> Sizes:
    """The fewest nodes that have so many free GPUs together, which they must, and the fewest GPUs beyond them."""
    left, nodes = ranks, 0
    for count in sorted(free.values(), reverse=True):
        if left <= 0:
            break
        left, nodes = left - count, nodes + 1
    return _least_over(ranks, nodes, sorted(Counter(free.values()).items(), reverse=True))


def _least_over(ranks: int, nodes: int, kinds: list[tuple[int, int]]) -> Sizes:
    """``kinds``: (free GPUs, nodes that have so many), the largest first. A bit of ``reached[n]`` for each sum that n
    nodes have; where several choices have the same, nodes of one middling size are taken and the largest kept."""
    reached = [1] + [0] * nodes
    before = []
    for size, many in kinds:
        before.append(reached)
        reached = list(reached)
        for used in range(1, nodes + 1):
            for times in range(1, min(many, used) + 1):
                reached[used] |= before[-1][used - times] << times * size
    beyond = reached[nodes] >> ranks
    total = left = ranks + (beyond & -beyond).bit_length() - 1
    sizes: Counter[int] = Counter()
    used = nodes
    for (size, many), earlier in zip(reversed(kinds), reversed(before), strict=True):
        choices = range(min(many, used, left // size) + 1)
        times = next(times for times in choices if earlier[used - times] >> left - times * size & 1)
        sizes[size] = times
        used, left = used - times, left - times * size
    return Sizes(nodes, total, sizes)


def _best_rack(ranks: int, free: Mapping[int, int], topology: Topology) -> Mapping[int, int]:
    """The nodes of the one rack that takes all with the fewest nodes and the least over; all nodes if there is none."""
    racks: defaultdict[str, Counts] = defaultdict(dict)
    for node, count in free.items():
        racks[topology.rack(node)][node] = count
    racks.pop("", None)
    fitting = [(name, nodes) for name, nodes in racks.items() if sum(nodes.values()) >= ranks]
    if not fitting:
        return free

    def cost(rack: tuple[str, Counts]) -> tuple[int, int, int, str]:
        name, nodes = rack
        pick = fewest_nodes(ranks, nodes)
        return pick.nodes, pick.total, sum(nodes.values()), name

    return min(fitting, key=cost)[1]


def _shares(ranks: int, free: Mapping[int, int], sizes: Counter[int], topology: Topology) -> Counts:
    """Nodes of these sizes, in as few racks as can be seen; what is left over stays on the smallest."""
    wanted, taken = Counter(sizes), []
    while wanted.total():
        racks: defaultdict[str, list[int]] = defaultdict(list)
        for node, count in free.items():
            if wanted[count] and node not in taken:
                racks[topology.rack(node) or f"\0{node}"].append(node)
        _name, nodes = max(sorted(racks.items()), key=lambda rack: _covered(rack[1], free, wanted))
        for node in sorted(nodes, key=lambda node: (-free[node], node)):
            if wanted[free[node]]:
                wanted[free[node]] -= 1
                taken.append(node)
    shares, left = {}, ranks
    for node in sorted(taken, key=lambda node: (-free[node], node)):
        shares[node] = min(free[node], left)
        left -= shares[node]
    return shares


def _covered(nodes: list[int], free: Mapping[int, int], wanted: Counter[int]) -> int:
    """How many of the wanted GPUs a rack's nodes have."""
    return sum(size * times for size, times in (Counter(free[node] for node in nodes) & wanted).items())
