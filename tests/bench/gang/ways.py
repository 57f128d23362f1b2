"""Other ways to spread a group over nodes, and the optimum."""

import random

from ortools.sat.python import cp_model

from tests.bench.gang.fleets import Free, Shares

SOLVE_SECONDS = 20


def node_order(ranks: int, free: Free) -> Shares:
    """The nodes as they stand in the list, each as far as it goes."""
    return _in_order(ranks, free, sorted(free))


def at_random(ranks: int, free: Free, chance: random.Random) -> Shares:
    nodes = sorted(free)
    chance.shuffle(nodes)
    return _in_order(ranks, free, nodes)


def _in_order(ranks: int, free: Free, nodes: list[int]) -> Shares:
    shares: Shares = {}
    for node in nodes:
        take = min(free[node], ranks - sum(shares.values()))
        if take:
            shares[node] = take
    return shares


def optimum(ranks: int, free: Free) -> int:
    """The fewest nodes that take all, wherever they stand; proven."""
    model = cp_model.CpModel()
    used = {node: model.new_bool_var(f"used{node}") for node in free}
    takes = {node: model.new_int_var(0, many, f"takes{node}") for node, many in free.items()}
    model.add(sum(takes.values()) == ranks)
    for node, many in free.items():
        model.add(takes[node] <= many * used[node])
    model.minimize(sum(used.values()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = SOLVE_SECONDS
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise RuntimeError(f"no optimum for {ranks} GPUs in {SOLVE_SECONDS} s")
    return round(solver.objective_value)
