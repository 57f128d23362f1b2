"""The same requests before all placers, a round for each seed: what they come to together, and what of it is chance."""

from collections.abc import Callable, Sequence

import numpy as np

from tests.bench.placement.replay import Tally

# One seed: tallies by placer.
Round = dict[str, Tally]
Statistic = Callable[[Round], float]
# Of Student's distribution, one-sided at 5 %, by degrees of freedom.
STUDENT = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13}


def together(rounds: Sequence[Round]) -> Round:
    """The tallies of all seeds, added up by placer."""
    return {name: sum((one[name] for one in rounds[1:]), rounds[0][name]) for name in rounds[0]}


def noise_of(rounds: Sequence[Round], statistic: Statistic) -> float:
    """By how much the statistic of all seeds may be off by chance, in one direction, at 5 %: by the jackknife, which
    leaves out one seed after the other. All placers see the same requests, so what is chance in these falls out."""
    count = len(rounds)
    if count < 2:
        return float("inf")
    without = np.array([statistic(together([*rounds[:at], *rounds[at + 1 :]])) for at in range(count)])
    error = float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))
    return STUDENT[min(count - 1, max(STUDENT))] * error
