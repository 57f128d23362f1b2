"""P5: groups of 2 to 64 whole GPUs over nodes and racks, against node order, random and the optimum; and crashes."""

import random
import time

import numpy as np

from scheduler.placement.nearness import spread_over
from tests.bench.figures import Board
from tests.bench.gang.crashes import crash_tries
from tests.bench.gang.fleets import Meeting, meetings, topology_of
from tests.bench.gang.ways import at_random, node_order, optimum
from tests.bench.registry import Options

FLEETS = (8, 16, 32)
MEETINGS, QUICK_MEETINGS = 400, 60
TRIES, QUICK_TRIES = 20_000, 300  # of each of five seeds


def run(options: Options, board: Board) -> None:
    count = QUICK_MEETINGS if options.quick else MEETINGS
    for nodes in FLEETS:
        rounds = [_Round(seed, nodes, count) for seed in options.seeds]
        ours, best = (sum(getattr(one, name) for one in rounds) for name in ("ours", "best"))
        others = {name: sum(one.others[name] for one in rounds) / best for name in ("node_order", "random")}
        told = " ".join(f"{name}={ratio:.3f}" for name, ratio in others.items())
        larger = sum(one.kept_in_rack for one in rounds)
        p99 = max(one.p99_ms for one in rounds)
        board.note(f"gang.{nodes}: {told}; {larger} groups took more nodes to stay in a rack; p99 {p99:.2f} ms")
        board.add(f"gang.{nodes}_nodes", "nodes_of_optimum", ours / best, "<=1.02")
    tries = QUICK_TRIES if options.quick else TRIES
    found = np.array([crash_tries(seed, tries) for seed in options.seeds]).sum(axis=0)
    board.note(f"gang.crashes: {found[1]} of {tries * len(options.seeds)} tries crashed, {found[2]} were booked")
    board.add("gang.crashes", "partial_groups", int(found[0]), "==0")


class _Round:
    """One seed on one fleet: every way is asked about the same free GPUs, as ours left them."""

    def __init__(self, seed: int, nodes: int, count: int) -> None:
        topology, chance = topology_of(nodes), random.Random(seed)
        met = meetings(seed, nodes, count, lambda ranks, free: spread_over(ranks, free, topology))
        self.ours = self.best = self.kept_in_rack = 0
        self.others = {"node_order": 0, "random": 0}
        seconds = []
        for one in met:
            began = time.process_time()
            ours = len(spread_over(one.ranks, one.free, topology))
            seconds.append(time.process_time() - began)
            self._count(one, ours, chance)
        self.p99_ms = 1000 * float(np.quantile(seconds, 0.99))

    def _count(self, one: Meeting, ours: int, chance: random.Random) -> None:
        best = optimum(one.ranks, one.free)
        self.ours, self.best = self.ours + ours, self.best + best
        self.kept_in_rack += ours > best
        self.others["node_order"] += len(node_order(one.ranks, one.free))
        self.others["random"] += len(at_random(one.ranks, one.free, chance))
