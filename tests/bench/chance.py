"""How much of a figure is chance, told from the seeds that it is taken over."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tests.bench.registry import Options

Round = TypeVar("Round")
# Of Student's distribution, one-sided at 5 %, by degrees of freedom.
STUDENT = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13}


def noise_of(rounds: Sequence[Round], statistic: Callable[[Sequence[Round]], float], options: Options) -> float:
    """Of the quick form, whose rounds are short; the full form is judged as it is.

    By how much the statistic of all seeds may be off by chance, in one direction, at 5 %: by the jackknife, which
    leaves out one seed after the other. Where all see the same requests, what is chance in these falls out."""
    if not options.quick:
        return 0.0
    count = len(rounds)
    if count < 2:
        return float("inf")
    without = np.array([statistic([*rounds[:at], *rounds[at + 1 :]]) for at in range(count)])
    error = float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))
    return STUDENT[min(count - 1, max(STUDENT))] * error
