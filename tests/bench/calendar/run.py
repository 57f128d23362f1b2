"""P3: reservations on a calendar, accepted online, against fixed plans and the limit of packing anew in every cell."""

from collections.abc import Sequence

import numpy as np

from tests.bench.calendar import peers
from tests.bench.calendar.planner import Planner, offline_plan
from tests.bench.calendar.requests import SHAPES, Request, mixes_of, offered
from tests.bench.chance import noise_of
from tests.bench.figures import Board
from tests.bench.registry import Options

GPUS = 100
# The quick form takes fewer days and seeds: on fewer GPUs there is less to choose from, and all figures are worse.
CELLS, QUICK_CELLS, QUICK_SEEDS = 1440, 240, 3
LOAD = 1.2
# After so many requests the re-plan in the background takes up so many leases.
REPLAN_EVERY, REPLAN_LEASES = 10, 60
PEERS = {"first_fit": peers.first_fit, "best_fit": peers.best_fit, "fgd_or": peers.fgd_or}


def run(options: Options, board: Board) -> None:
    gpus = options.more.get("gpus", GPUS)
    cells = QUICK_CELLS if options.quick else CELLS
    load, seeds = options.more.get("load", LOAD), options.five_seeds[: QUICK_SEEDS if options.quick else None]
    board.note(f"{gpus} GPUs, {cells} half hours, load {load}, seeds {seeds.start} to {seeds.stop - 1}")
    for mix, shares in mixes_of(options.more.get("mix")).items():
        rounds = [Round(seed, shares, gpus, cells, load) for seed in seeds]
        name = f"calendar.{mix}"
        for one in rounds:
            board.note(f"{name} seed {one.seed}: {one.told()}")
        noise = noise_of(rounds, _ratio, options)
        board.add(name, "accepted_of_oracle", _ratio(rounds), ">=0.96", ">=0.975", noise)
        board.add(f"{name}.decision", "p99_ms", max(one.p99_ms for one in rounds), "<=20")
        board.add(f"{name}.promises", "broken", sum(one.broken for one in rounds), "==0")
        _add_fairness(board, name, rounds, options)


class Round:
    """One seed: ours, the peers and the oracle on the same requests."""

    def __init__(self, seed: int, mix: tuple[float, ...], gpus: int, cells: int, load: float) -> None:
        self.seed = seed
        requests = offered(seed, mix, gpus, cells, load)
        self.shapes = np.array([request.shape for request in requests])
        self.volumes = np.array([request.volume for request in requests])
        kept = peers.oracle(requests, mix, gpus, cells)
        self.oracle = self._volume(kept)
        accepted = {name: plan(requests, mix, gpus, cells) for name, plan in PEERS.items()}
        accepted["offline"] = offline_plan(requests, kept, gpus, cells)
        self.peers = {name: self._volume(these) / self.oracle for name, these in accepted.items()}
        self.first_fit_shares = self._shares(accepted["first_fit"])
        planner = plan_of(requests, gpus, cells)
        self.ratio = self._volume(planner.accepted) / self.oracle
        self.shares = self._shares(planner.accepted)
        self.broken = planner.broken(requests)
        self.p50_ms, self.p99_ms = np.quantile(planner.decisions_ms, (0.5, 0.99))
        self.planner = planner

    def _volume(self, accepted: list[bool]) -> int:
        return int(self.volumes[np.array(accepted)].sum())

    def _shares(self, accepted: list[bool]) -> list[float]:
        """Of each profile the slice-hours accepted, in percent of those that were asked for."""
        kept = self.volumes * np.array(accepted)
        return [
            100 * float(kept[self.shapes == shape].sum()) / max(int(self.volumes[self.shapes == shape].sum()), 1)
            for shape in range(len(SHAPES))
        ]

    def told(self) -> str:
        others = " ".join(f"{name}={ratio:.4f}" for name, ratio in self.peers.items())
        ours = self.planner
        return (
            f"ours={self.ratio:.4f} {others} p50={self.p50_ms:.2f}ms p99={self.p99_ms:.1f}ms "
            f"moves={ours.moved} background={ours.background_moves} in {ours.background_seconds:.0f}s "
            f"refused though it could be packed={ours.without_proof} of {len(ours.accepted)}"
        )


def plan_of(requests: list[Request], gpus: int, cells: int) -> Planner:
    """Ours, with the re-plan in the background."""
    planner = Planner(gpus, cells)
    for number, request in enumerate(requests, 1):
        planner.ask(request)
        if number % REPLAN_EVERY == 0:
            planner.improve(REPLAN_LEASES)
    return planner


def _ratio(rounds: Sequence[Round]) -> float:
    return float(np.mean([one.ratio for one in rounds]))


def _add_fairness(board: Board, name: str, rounds: list[Round], options: Options) -> None:
    """No profile pays for the others: accepted slice-hours in points of what it asked for, against first-fit's."""
    ours = np.mean([one.shares for one in rounds], axis=0)
    theirs = np.mean([one.first_fit_shares for one in rounds], axis=0)
    for shape, our, their in zip(SHAPES, ours, theirs, strict=True):
        board.note(f"{name} {shape.name}: {our:.1f} % of its slice-hours accepted, first-fit {their:.1f} %")
    noise = noise_of(rounds, _points_below, options)
    board.add(f"{name}.fairness", "points_below_first_fit", max(_points_below(rounds), 0.0), "<=2", noise=noise)


def _points_below(rounds: Sequence[Round]) -> float:
    """Of the profile that is furthest below first-fit."""
    return float(np.mean([np.subtract(one.first_fit_shares, one.shares) for one in rounds], axis=0).max())
