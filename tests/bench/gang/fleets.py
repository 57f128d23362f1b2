"""Fleets with holes, and groups of whole GPUs that come and go on them."""

import random
from dataclasses import dataclass

from scheduler.placement.topology import Topology

GPUS_A_NODE, NODES_A_RACK = 8, 4
SIZES = (2, 2, 2, 4, 4, 4, 6, 8, 8, 8, 12, 16, 16, 24, 32, 48, 64)

Free = dict[int, int]
Shares = dict[int, int]


@dataclass(frozen=True)
class Meeting:
    """A group that asks, and the free GPUs by node that it finds."""

    ranks: int
    free: Free


def topology_of(nodes: int) -> Topology:
    return Topology({node: f"rack-{node // NODES_A_RACK:03d}" for node in range(nodes)})


def meetings(seed: int, nodes: int, count: int, place) -> list[Meeting]:
    """``place`` says where each group goes; single GPUs come and go beside, so that nodes have holes of any size. What
    leaves is drawn, so that the fleet stays around four fifths full."""
    chance = random.Random(seed)
    free, held, met = dict.fromkeys(range(nodes), GPUS_A_NODE), [], []
    while len(met) < count:
        used = 1 - sum(free.values()) / (nodes * GPUS_A_NODE)
        if held and chance.random() < used * 0.62:
            for node, many in held.pop(chance.randrange(len(held))).items():
                free[node] += many
            continue
        ranks = chance.choice(SIZES) if chance.random() < 0.6 else 1
        if ranks > 1 and ranks <= sum(free.values()):
            met.append(Meeting(ranks, dict(free)))
        shares = {chance.choice([n for n in free if free[n]] or [0]): 1} if ranks == 1 else place(ranks, free)
        if shares and all(free[node] >= many for node, many in shares.items()):
            for node, many in shares.items():
                free[node] -= many
            held.append(shares)
    return met
