"""What free slices are worth to what may come, by how soon they are free: the score by which placing decides.

A GPU is worth what still fits on it: slices in instances of each kind of shape that fit side by side, less the slices
that nothing can use. How much each counts depends on how far ahead one looks: a whole GPU that is free now is wanted at
once, two halves in a while are worth more than the same slices scattered. An instance costs what its span takes from
that worth over its own time, as far as what runs beside it would have left it: so leases that end together meet.
"""

from enum import Enum, auto
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.geometry import Shape
from scheduler.placement.scores import shapes_by_geometry
from scheduler.placement.tables import gpu_tables

# How far one looks ahead, in mean lengths of a lease: what comes later counts by exp(-time / horizon).
HORIZONS = (0.05, 0.3, 1.8)


class Kind(Enum):
    """Shapes by the share of a GPU that they take, and the slices that are of no use."""

    SMALL = auto()
    QUARTER = auto()
    HALF = auto()
    HALF_OF_FEWER_STARTS = auto()
    WHOLE = auto()
    DEAD = auto()


# A weight for each horizon and one for this very moment; all mixes share these numbers. Found by a search (CMA-ES) on a
# hundred GPUs under four mixes of demand, each at nine and eleven tenths of what they hold.
WEIGHTS: dict[Kind, tuple[float, float, float, float]] = {
    Kind.SMALL: (0.0, 0.03, 1.37, 0.02),
    Kind.QUARTER: (0.0, 0.3, 0.4, 0.02),
    Kind.HALF: (0.0, 0.33, 0.79, 0.02),
    Kind.HALF_OF_FEWER_STARTS: (0.0, 0.0, 0.0, 0.0),
    Kind.WHOLE: (0.0, 0.22, 0.05, 0.01),
    Kind.DEAD: (0.0, 0.17, 3.6, 0.04),
}
# Where much is refused the half of fewer starts has a price: small ones go rather where it would lie, so that those who
# ask for the other half are not refused for its sake. Where little is refused that price would be paid for nobody.
PRICE_OF_FEWER_STARTS = (0.0, 0.2, 0.2, 0.01)
PRICE_STEPS = 4


class Worth:
    """For one set of shapes on GPUs of that many slices. ``price``: how many of the steps of the price of fewer starts
    are taken. ``by_set`` holds for each horizon, and last for this very moment, the worth of a GPU by its set of held
    slices.

    ``losses`` are by shape (in the order of ``shapes``), then horizon and last this moment, then set of held slices and
    legal span: what the span takes. It is infinite this very moment where the span is not free, and 0 later on.
    """

    def __init__(self, shapes: tuple[Shape, ...], slices: int, price: int) -> None:
        self.tables = gpu_tables(shapes, slices)
        self.by_set = -np.outer(WEIGHTS[Kind.DEAD], self.tables.dead.astype(float))
        for shape, kind in _kinds(shapes, slices).items():
            instances = self.tables.room[self.tables.position[shape.name]]
            self.by_set += np.outer(_weights(kind, price), (instances * shape.size).astype(float))
        self.losses = tuple(self._losses(row) for row in range(len(shapes)))

    def _losses(self, row: int) -> NDArray[np.float64]:
        losses = np.stack([self.tables.losses(worth, row) for worth in self.by_set])
        losses[:-1] = np.nan_to_num(losses[:-1])
        return np.where(np.isnan(losses), np.inf, losses)


def _kinds(shapes: tuple[Shape, ...], slices: int) -> dict[Shape, Kind]:
    """Of the shapes that take half a GPU the one with the most starts is told from the others: where they fit it does
    too."""
    distinct = shapes_by_geometry(shapes)
    kinds = {shape: _kind(shape, slices) for shape in distinct}
    halves = [shape for shape, kind in kinds.items() if kind is Kind.HALF]
    for shape in sorted(halves, key=lambda shape: (-len(shape.starts), shape.name))[1:]:
        kinds[shape] = Kind.HALF_OF_FEWER_STARTS
    return kinds


def _kind(shape: Shape, slices: int) -> Kind:
    if shape.size == slices:
        return Kind.WHOLE
    if 2 * shape.size >= slices:
        return Kind.HALF
    return Kind.QUARTER if 4 * shape.size >= slices and shape.size > 1 else Kind.SMALL


def _weights(kind: Kind, price: int) -> NDArray[np.float64]:
    weights = np.array(WEIGHTS[kind])
    if kind is Kind.HALF_OF_FEWER_STARTS:
        weights -= price / PRICE_STEPS * np.array(PRICE_OF_FEWER_STARTS)
    return weights


@lru_cache(maxsize=64 * (PRICE_STEPS + 1))
def worth_of(shapes: tuple[Shape, ...], slices: int, price: int = 0) -> Worth:
    """Built once for each table of shapes and step of the price in the life of the process."""
    return Worth(shapes, slices, price)
