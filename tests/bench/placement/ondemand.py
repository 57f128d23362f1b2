"""P1: slices on demand, with departures, on a fleet that cannot take all: how much of what free repacking gains over
first-fit is lost, when nothing that has started is moved."""

from collections import defaultdict
from collections.abc import Sequence

from tests.bench.figures import Board
from tests.bench.placement.baselines import FIRST_FIT, Ours, Repacking, WholeGpus, placers
from tests.bench.placement.demand import MIXES, arrivals
from tests.bench.placement.replay import Tally, by_shape, points_below, replay
from tests.bench.registry import Options

GPUS, GPUS_PER_NODE = 100, 1
ARRIVALS, QUICK_ARRIVALS = 40_000, 12_000
WARM_UP = 0.25
LOADS = (0.9, 1.1)
# (target, stretch) for loads of 1 and more, and below.
LOST_MOST = (("<=0.45", "<=0.35"), ("<=0.30", "<=0.20"))
POINTS_MOST = "<=2"


def run(options: Options, board: Board) -> None:
    """One mix is named ``given`` where the command line says it."""
    mixes = {"given": options.more["mix"]} if "mix" in options.more else MIXES
    loads = (options.more["load"],) if "load" in options.more else LOADS
    for name, mix in mixes.items():
        for load in loads:
            tallies = tallies_of(mix, load, options)
            _report(f"placement.{name}.{load:g}", load, tallies, board)


def tallies_of(mix: Sequence[float], load: float, options: Options) -> dict[str, Tally]:
    """By placer, over all seeds."""
    gpus, count = options.more.get("gpus", GPUS), QUICK_ARRIVALS if options.quick else ARRIVALS
    by_seed: defaultdict[str, list[Tally]] = defaultdict(list)
    for seed in options.seeds:
        requests = arrivals(mix, load, gpus, count, seed)
        for placer in (*placers(mix, gpus, GPUS_PER_NODE, seed), WholeGpus(gpus)):
            by_seed[placer.name].append(replay(requests, placer, int(WARM_UP * count)))
    return {name: sum(tallies[1:], tallies[0]) for name, tallies in by_seed.items()}


def _report(name: str, load: float, tallies: dict[str, Tally], board: Board) -> None:
    limit, first_fit, ours = tallies[Repacking.name], tallies[FIRST_FIT], tallies[Ours.name]
    gain = limit.total - first_fit.total
    for placer, tally in tallies.items():
        lost = (limit.total - tally.total) / gain if gain else 0.0
        share = 100 * tally.total / tally.asked.sum()
        board.note(f"{name} {placer}: lost {lost:.3f}, accepted {share:.2f} %: {by_shape(tally)}")
    target, stretch = LOST_MOST[0 if load >= 1 else 1]
    board.add(name, "lost", (limit.total - ours.total) / gain if gain else 0.0, target, stretch)
    board.add(f"{name}.by_profile", "points_below_first_fit", points_below(ours, first_fit), POINTS_MOST)
