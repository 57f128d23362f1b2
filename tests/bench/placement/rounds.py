"""The same requests before all placers, a round for each seed, and what the rounds come to together."""

from collections.abc import Callable, Sequence

from tests.bench.chance import noise_of
from tests.bench.placement.replay import Tally
from tests.bench.registry import Options

# One seed: tallies by placer.
Round = dict[str, Tally]


def together(rounds: Sequence[Round]) -> Round:
    """The tallies of all seeds, added up by placer."""
    return {name: sum((one[name] for one in rounds[1:]), rounds[0][name]) for name in rounds[0]}


def noise_in(rounds: Sequence[Round], statistic: Callable[[Round], float], options: Options) -> float:
    """See :func:`noise_of`."""
    return noise_of(rounds, lambda some: statistic(together(some)), options)
