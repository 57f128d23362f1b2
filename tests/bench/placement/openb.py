"""P2: the openb trace of a production cluster, replayed with its own arrivals and lives on a cluster shrunk to a share
of its peak demand. Gangs of whole GPUs go to one node. The limit repacks at will, and knows no nodes.

No model of the trace has MIG, so its profiles are a what-if: pods of one GPU, ranked by the share of it that they asked
for, are laid onto fixed shares of the profiles; equal ones lie in an order that the seed draws.
"""

import csv
import random
from itertools import accumulate
from pathlib import Path

from tests.bench.figures import Board
from tests.bench.placement.baselines import FIRST_FIT, Ours, Repacking, placers
from tests.bench.placement.demand import MIXES, SHAPES, SLICES, WHOLE, Request
from tests.bench.placement.replay import Tally, by_shape, points_below, replay
from tests.bench.placement.rounds import together
from tests.bench.registry import Options

TRACES = Path("..") / "shared" / "traces"
PODS = "openb_pod_list_default.csv"
GPUS_PER_NODE = 8
NODES_LEAST = 2
QUANTILES = MIXES["small-heavy"]
# Share of peak demand -> target and stretch, of the limit's slice-seconds.
OF_LIMIT_LEAST = {0.9: (">=0.975", ">=0.99"), 0.7: (">=0.88", ">=0.95"), 0.5: (">=0.98", ">=0.98")}
POINTS_MOST = "<=2"


def run(options: Options, board: Board) -> None:
    trace = _trace(options)
    if trace is None:
        board.note(f"openb is skipped: there is no {TRACES / PODS}; name its folder with --traces DIR.")
        return
    pods = _pods(trace)
    shares = (options.more["load"],) if "load" in options.more else tuple(OF_LIMIT_LEAST)
    for share in shares:
        _report(share, _tallies(pods, share, options, board), board)


def _trace(options: Options) -> Path | None:
    """The file of pods; None where nobody named one and the usual place has none. Exits where the one named is not."""
    trace: Path = options.more.get("trace") or options.more.get("traces", TRACES) / PODS
    if trace.is_file():
        return trace
    if "trace" in options.more or "traces" in options.more:
        raise SystemExit(f"No trace at {trace}.")
    return None


def _pods(trace: Path) -> list[tuple[float, float, int, int]]:
    """(from, until, GPUs, thousandths of the one GPU) of every pod that ran on GPUs, by when it came."""
    with trace.open(newline="") as lines:
        rows = [
            (
                float(row["creation_time"]),
                float(row["deletion_time"]),
                int(float(row["num_gpu"])),
                int(float(row["gpu_milli"] or 0)),
            )
            for row in csv.DictReader(lines)
        ]
    return sorted(row for row in rows if row[2] and row[1] > row[0])


def _requests(pods: list[tuple[float, float, int, int]], seed: int) -> list[Request]:
    chance = random.Random(seed)
    single = [number for number, pod in enumerate(pods) if pod[2] == 1]
    single.sort(key=lambda number: (pods[number][3], chance.random()))
    borders = list(accumulate(share / 100 * len(single) for share in QUANTILES))
    rows = {}
    for rank, number in enumerate(single):
        rows[number] = next((row for row, border in enumerate(borders) if rank + 0.5 <= border), WHOLE)
    return [Request(pod[0], pod[1], rows.get(number, WHOLE), pod[2]) for number, pod in enumerate(pods)]


def _peak_slices(requests: list[Request]) -> int:
    steps = []
    for request in requests:
        slices = SHAPES[request.row].size * request.ranks
        steps += [(request.start, slices), (request.end, -slices)]
    return max(accumulate(slices for _moment, slices in sorted(steps)))


def _tallies(
    pods: list[tuple[float, float, int, int]], share: float, options: Options, board: Board
) -> dict[str, Tally]:
    """By placer, over five seeds and the whole trace, also in the quick form: that leaves out the peers alone."""
    rounds = []
    for seed in options.five_seeds:
        requests = _requests(pods, seed)
        gpus_wanted = share * _peak_slices(requests) / SLICES
        nodes = max(NODES_LEAST, int(gpus_wanted) // GPUS_PER_NODE)
        board.note(f"openb {share:g}, seed {seed}: {len(requests)} pods on {nodes} nodes of {GPUS_PER_NODE} GPUs")
        mix = [sum(request.ranks for request in requests if request.row == row) for row in range(len(SHAPES))]
        these = placers(mix, nodes * GPUS_PER_NODE, GPUS_PER_NODE, seed, judged_only=options.quick)
        rounds.append({placer.name: replay(requests, placer) for placer in these})
    return together(rounds)


def _report(share: float, tallies: dict[str, Tally], board: Board) -> None:
    limit, name = tallies[Repacking.name], f"openb.{share:g}"
    for placer, tally in tallies.items():
        board.note(f"{name} {placer}: {tally.total / limit.total:.4f} of the limit: {by_shape(tally)}")
    target, stretch = OF_LIMIT_LEAST[min(OF_LIMIT_LEAST, key=lambda known: abs(known - share))]
    board.add(name, "of_limit", tallies[Ours.name].total / limit.total, target, stretch)
    below = points_below(tallies[Ours.name], tallies[FIRST_FIT])
    board.add(f"{name}.by_profile", "points_below_first_fit", below, POINTS_MOST)
