"""P1: slices on demand, with departures, on a fleet that cannot take all: how much of what free repacking gains over
first-fit is lost, when nothing that has started is moved."""

from collections.abc import Sequence

from tests.bench.figures import Board
from tests.bench.placement.baselines import FIRST_FIT, Ours, Repacking, WholeGpus, placers
from tests.bench.placement.demand import MIXES, arrivals
from tests.bench.placement.replay import by_shape, points_below, replay
from tests.bench.placement.rounds import Round, noise_in, together
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
            _report(f"placement.{name}.{load:g}", load, rounds_of(mix, load, options), options, board)


def rounds_of(mix: Sequence[float], load: float, options: Options) -> list[Round]:
    """A round a seed; in the quick form without the peers, of which the verdict needs first-fit alone."""
    gpus, count = options.more.get("gpus", GPUS), QUICK_ARRIVALS if options.quick else ARRIVALS
    rounds = []
    for seed in options.five_seeds:
        requests = arrivals(mix, load, gpus, count, seed)
        these = [*placers(mix, gpus, GPUS_PER_NODE, seed, judged_only=options.quick), WholeGpus(gpus)]
        rounds.append({placer.name: replay(requests, placer, int(WARM_UP * count)) for placer in these})
    return rounds


def lost(tallies: Round, placer: str = Ours.name) -> float:
    """Of what free repacking accepts beyond first-fit, the share that the placer does not."""
    limit = tallies[Repacking.name].total
    gain = limit - tallies[FIRST_FIT].total
    return (limit - tallies[placer].total) / gain if gain else 0.0


def below_first_fit(tallies: Round) -> float:
    return points_below(tallies[Ours.name], tallies[FIRST_FIT])


def _report(name: str, load: float, rounds: list[Round], options: Options, board: Board) -> None:
    tallies = together(rounds)
    for placer, tally in tallies.items():
        accepted = 100 * tally.total / tally.asked.sum()
        board.note(f"{name} {placer}: lost {lost(tallies, placer):.3f}, accepted {accepted:.2f} %: {by_shape(tally)}")
    board.note(f"{name} by seed: " + ", ".join(f"{lost(one):.3f}" for one in rounds))
    target, stretch = LOST_MOST[0 if load >= 1 else 1]
    judged = (
        ("", "lost", lost, target, stretch),
        (".by_profile", "points_below_first_fit", below_first_fit, POINTS_MOST, ""),
    )
    for more, metric, statistic, most, aim in judged:
        board.add(f"{name}{more}", metric, statistic(tallies), most, aim, noise_in(rounds, statistic, options))
