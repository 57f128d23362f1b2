"""What others do with the same requests: fixed plans on the matrix of time x GPU, and the limit that none can pass."""

from collections.abc import Callable

import numpy as np

from scheduler.placement.capacity import capacity_of
from scheduler.placement.geometry import disjoint_count, open_starts, span_mask
from tests.bench.calendar.requests import SHAPES, SLICES, Request

MASKS = range(1 << SLICES)
FULLNESS = np.array([mask.bit_count() for mask in MASKS], dtype=np.float32)
FITS = np.array([[bool(open_starts(shape, SLICES, mask)) for mask in MASKS] for shape in SHAPES])
USELESS = np.array(
    [
        [SLICES - mask.bit_count() - shape.size * disjoint_count(shape, SLICES, mask) for mask in MASKS]
        for shape in SHAPES
    ]
)
# Accepts a request or not, by its position among those offered.
Accepted = list[bool]


def first_fit(requests: list[Request], mix: tuple[float, ...], gpus: int, cells: int) -> Accepted:
    return _fixed_plan(requests, gpus, cells, lambda shape, mask: 0.0)


def best_fit(requests: list[Request], mix: tuple[float, ...], gpus: int, cells: int) -> Accepted:
    return _fixed_plan(requests, gpus, cells, lambda shape, mask: -float(FULLNESS[mask]))


def fgd_or(requests: list[Request], mix: tuple[float, ...], gpus: int, cells: int) -> Accepted:
    """Fragmentation gradient descent (the slices that the mix of demand cannot use) on what the window finds taken;
    ties to fuller GPUs."""
    useless = (np.array(mix)[:, None] / sum(mix) * USELESS).sum(axis=0)

    def score(shape: int, mask: int) -> float:
        return min(useless[mask | span] - useless[mask] for span in _spans(shape, mask)) - 1e-3 * float(FULLNESS[mask])

    def start(shape: int, mask: int) -> int:
        return min(_spans(shape, mask), key=lambda span: useless[mask | span])

    return _fixed_plan(requests, gpus, cells, score, start)


def _spans(shape: int, mask: int) -> list[int]:
    return [span_mask(start, SHAPES[shape].size) for start in open_starts(SHAPES[shape], SLICES, mask)]


def _fixed_plan(
    requests: list[Request],
    gpus: int,
    cells: int,
    score: Callable[[int, int], float],
    start: Callable[[int, int], int] | None = None,
) -> Accepted:
    """The lowest score by what the window finds taken, the first GPU on ties, and its first start unless told which."""
    scores = np.full(FITS.shape, np.inf, dtype=np.float32)
    spans = np.zeros(FITS.shape, dtype=np.uint8)
    for shape, mask in zip(*np.nonzero(FITS), strict=True):
        scores[shape, mask] = score(int(shape), int(mask))
        spans[shape, mask] = start(int(shape), int(mask)) if start else _spans(int(shape), int(mask))[0]
    calendar = np.zeros((cells, gpus), dtype=np.uint8)
    accepted = []
    for request in requests:
        window = calendar[request.first : request.last]
        taken = np.bitwise_or.reduce(window, axis=0)
        found = scores[request.shape][taken]
        gpu = int(found.argmin())
        accepted.append(bool(np.isfinite(found[gpu])))
        if accepted[-1]:
            window[:, gpu] |= spans[request.shape, taken[gpu]]
    return accepted


def whole_gpus(requests: list[Request], mix: tuple[float, ...], gpus: int, cells: int) -> Accepted:
    """Every request gets a GPU of its own, as where there are no slices; with free choice of the GPU at any moment,
    which is more than a real one has."""
    held = np.zeros(cells, dtype=np.int64)
    accepted = []
    for request in requests:
        window = held[request.first : request.last]
        accepted.append(bool(window.max() < gpus))
        if accepted[-1]:
            window += 1
    return accepted


def oracle(requests: list[Request], mix: tuple[float, ...], gpus: int, cells: int) -> Accepted:
    """Everything is packed anew in every cell, as if a lease could change its GPU from one half hour to the next."""
    capacity, known = capacity_of(SHAPES, SLICES), {}
    held = np.zeros((cells, len(SHAPES)), dtype=np.int64)
    accepted = []
    for request in requests:
        window = held[request.first : request.last]
        window[:, request.shape] += 1
        fits = True
        for counts in set(map(tuple, window.tolist())):
            if counts not in known:
                known[counts] = capacity.fits(counts, gpus)
            if not known[counts]:
                fits = False
                break
        if not fits:
            window[:, request.shape] -= 1
        accepted.append(fits)
    return accepted
