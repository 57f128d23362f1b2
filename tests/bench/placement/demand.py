"""What the benchmarks of placement ask for: the profiles of an 80 GB part, mixes of them, and requests with ends."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.placement.geometry import Shape

SLICES = 8
SHAPES = (
    Shape("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6), 1, 7),
    Shape("1g.20gb", 2, (0, 2, 4, 6), 1, 4),
    Shape("2g.20gb", 2, (0, 2, 4), 2, 3),
    Shape("3g.40gb", 4, (0, 4), 3, 2),
    Shape("4g.40gb", 4, (0,), 4, 1),
    Shape("7g.80gb", 8, (0,), 7, 1),
)
WHOLE = len(SHAPES) - 1
MIXES: dict[str, tuple[float, ...]] = {
    "uniform": (100 / 6,) * 6,
    "small-heavy": (40, 5, 25, 15, 10, 5),
    "big-heavy": (5, 5, 10, 25, 25, 30),
    "no-7g": (25, 10, 25, 25, 15, 0),
}
MEAN_SECONDS = 4 * 3600
SIGMA = 1.5


class Request(NamedTuple):
    """``ranks`` of the shape at ``row`` from ``start`` until ``end``; several ranks are whole GPUs of one node."""

    start: float
    end: float
    row: int
    ranks: int

    @property
    def slices(self) -> int:
        return SHAPES[self.row].size * self.ranks

    @property
    def slice_seconds(self) -> float:
        return self.slices * (self.end - self.start)


def arrivals(mix: Sequence[float], load: float, gpus: int, count: int, seed: int) -> list[Request]:
    """Poisson arrivals of the mix that ask for ``load`` times the slices there are; lives are lognormal."""
    shares = np.array(mix, dtype=float) / sum(mix)
    slices_each = float(shares @ np.array([shape.size for shape in SHAPES]))
    chance = np.random.default_rng(seed)
    starts = np.cumsum(chance.exponential(MEAN_SECONDS * slices_each / (load * SLICES * gpus), count))
    rows = chance.choice(len(SHAPES), count, p=shares)
    lives = chance.lognormal(math.log(MEAN_SECONDS) - SIGMA**2 / 2, SIGMA, count)
    return [
        Request(start, start + life, row, 1)
        for start, life, row in zip(starts.tolist(), lives.tolist(), rows.tolist(), strict=True)
    ]
