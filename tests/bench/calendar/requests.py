"""Made-up requests for a window: which profile, from when to when, in the order in which people ask."""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.placement.geometry import Shape, Window

CELL_SECONDS = 1800
ORIGIN = 20_000 * 86400
SHAPES = (
    Shape("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6), 1, 7),
    Shape("1g.20gb", 2, (0, 2, 4, 6), 1, 4),
    Shape("2g.20gb", 2, (0, 2, 4), 2, 3),
    Shape("3g.40gb", 4, (0, 4), 3, 2),
    Shape("4g.40gb", 4, (0,), 4, 1),
    Shape("7g.80gb", 8, (0,), 7, 1),
)
SLICES = 8
# Shares of the shapes in percent.
MIXES = {
    "uniform": (100 / 6,) * 6,
    "small-heavy": (40, 5, 25, 15, 10, 5),
    "big-heavy": (5, 5, 10, 25, 25, 30),
    "no-7g": (25, 10, 25, 25, 15, 0),
}
MEDIAN_CELLS = 8
SIGMA = 1.1
LONGEST_CELLS = 144
REQUESTS_A_GPU = 600


@dataclass(frozen=True)
class Request:
    """``shape`` is a position in SHAPES; cells are half hours from the origin."""

    shape: int
    first: int
    last: int

    @property
    def volume(self) -> int:
        """Slice-cells."""
        return SHAPES[self.shape].size * (self.last - self.first)

    @property
    def window(self) -> Window:
        return Window(ORIGIN + self.first * CELL_SECONDS, ORIGIN + self.last * CELL_SECONDS)


def mixes_of(mix: tuple[float, ...] | None) -> dict[str, tuple[float, ...]]:
    """The four that are measured, or the one that the command line gives."""
    return {"own": mix} if mix else MIXES


def offered(seed: int, mix: tuple[float, ...], gpus: int, cells: int, load: float) -> list[Request]:
    """Starts are spread evenly over the horizon, lengths are lognormal: half of them within four hours, none above
    three days. As many as ask for ``load`` times the slices of all GPUs over the horizon."""
    chance = np.random.default_rng(seed)
    count = REQUESTS_A_GPU * gpus
    shapes = chance.choice(len(SHAPES), count, p=np.array(mix) / sum(mix))
    lengths = np.clip(np.round(chance.lognormal(math.log(MEDIAN_CELLS), SIGMA, count)), 1, LONGEST_CELLS).astype(int)
    firsts = chance.integers(0, cells, count)
    lasts = np.minimum(firsts + lengths, cells)
    asked = np.cumsum(np.array([shape.size for shape in SHAPES])[shapes] * (lasts - firsts))
    enough = int(np.searchsorted(asked, load * SLICES * gpus * cells))
    if enough == count:
        raise ValueError("So many requests are not made up; ask for less load.")
    parts = (shapes[:enough].tolist(), firsts[:enough].tolist(), lasts[:enough].tolist())
    return [Request(*parts) for parts in zip(*parts, strict=True)]
