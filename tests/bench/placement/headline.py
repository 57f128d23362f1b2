"""H1: the share of all slice-time that is held by somebody who asked for just that much, where more is asked for than
there is, against giving whole GPUs to the same demand. Nothing that has started is moved."""

from tests.bench.figures import Board
from tests.bench.placement.baselines import FIRST_FIT, Ours, WholeGpus
from tests.bench.placement.demand import MIXES, SLICES
from tests.bench.placement.ondemand import GPUS, POINTS_MOST, tallies_of
from tests.bench.placement.replay import points_below
from tests.bench.registry import Options

LOAD = 1.1
ALLOCATED_LEAST = (">=0.915", ">=0.93")


def run(options: Options, board: Board) -> None:
    """One mix is named ``given`` where the command line says it."""
    mixes = {"given": options.more["mix"]} if "mix" in options.more else MIXES
    capacity = SLICES * options.more.get("gpus", GPUS)
    for mix, shares in mixes.items():
        tallies = tallies_of(shares, options.more.get("load", LOAD), options)
        allocated = {name: tally.within / tally.seconds / capacity for name, tally in tallies.items()}
        name = f"headline.{mix}"
        board.note(f"{name}: " + ", ".join(f"{placer} {100 * share:.1f} %" for placer, share in allocated.items()))
        board.add(name, "allocated", allocated[Ours.name], *ALLOCATED_LEAST)
        gain = allocated[Ours.name] / allocated[WholeGpus.name]
        board.note(f"{name}: {gain:.2f} times what whole GPUs give")
        below = points_below(tallies[Ours.name], tallies[FIRST_FIT])
        board.add(f"{name}.by_profile", "points_below_first_fit", below, POINTS_MOST)
