"""H1: the share of all slice-time that is held by somebody who asked for just that much, where more is asked for than
there is, against giving whole GPUs to the same demand. Nothing that has started is moved."""

from tests.bench.figures import Board
from tests.bench.placement.baselines import Ours, WholeGpus
from tests.bench.placement.demand import MIXES, SLICES
from tests.bench.placement.ondemand import GPUS, POINTS_MOST, below_first_fit, rounds_of
from tests.bench.placement.rounds import Round, noise_in, together
from tests.bench.registry import Options

LOAD = 1.1
ALLOCATED_LEAST = (">=0.915", ">=0.93")


def run(options: Options, board: Board) -> None:
    """One mix is named ``given`` where the command line says it."""
    mixes = {"given": options.more["mix"]} if "mix" in options.more else MIXES
    capacity = SLICES * options.more.get("gpus", GPUS)
    for mix, shares in mixes.items():
        rounds = rounds_of(shares, options.more.get("load", LOAD), options)
        tallies = together(rounds)

        def allocated(these: Round, placer: str = Ours.name) -> float:
            return these[placer].within / these[placer].seconds / capacity

        name = f"headline.{mix}"
        told = (f"{placer} {100 * allocated(tallies, placer):.1f} %" for placer in tallies)
        board.note(f"{name}: " + ", ".join(told))
        gain = allocated(tallies) / allocated(tallies, WholeGpus.name)
        board.note(f"{name}: {gain:.2f} times what whole GPUs give")
        board.add(name, "allocated", allocated(tallies), *ALLOCATED_LEAST, noise_in(rounds, allocated, options))
        below, noise = below_first_fit(tallies), noise_in(rounds, below_first_fit, options)
        board.add(f"{name}.by_profile", "points_below_first_fit", below, POINTS_MOST, noise=noise)
