"""Placing what begins now and whose end is known: the span by which what the GPUs are worth to others loses least.

GPUs with the same slices held stand in one bucket, by when the last of it ends. A decision looks at a few GPUs of each
bucket, those whose last end lies next to that of the newcomer, so its cost does not grow with the number of GPUs.
Nothing that has started is moved. The same calls in the same order give the same places.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.geometry import Placement, Shape
from scheduler.placement.tables import gpu_tables
from scheduler.placement.worth import HORIZONS, PRICE_STEPS, worth_of

# So many GPUs of a bucket are looked at on either side of the newcomer's end.
NEAR = 4
# The share of the slices asked for that is refused: up to the first nobody pays a price, from the second on all of it.
LITTLE_REFUSED, MUCH_REFUSED = 0.04, 0.07
# Ties are meant to be ties on every machine.
DIGITS = 9


class _Hold(NamedTuple):
    """A span of the GPU at ``position``, as a set of slices, until ``until``."""

    until: float
    span: int
    position: int
    row: int


class OnDemand:
    """``gpus`` are (id, node id, index), and stand in the order of node and index whatever the order they come in.

    Times are seconds. ``typical_seconds`` is the mean length of a lease here, the measure of what soon means; it is
    learned from what is asked for, the more, the less the first guess counts.
    """

    def __init__(
        self,
        gpus: Sequence[tuple[int, int, int]],
        shapes: tuple[Shape, ...],
        slices: int,
        typical_seconds: float = 4 * 3600,
    ) -> None:
        self.gpus = sorted(gpus, key=lambda gpu: (gpu[1], gpu[2], gpu[0]))
        self.tables = gpu_tables(shapes, slices)
        self._prices = [worth_of(shapes, slices, price) for price in range(PRICE_STEPS + 1)]
        self.lengths = _Lengths(typical_seconds)
        self.refusals = _Refusals()
        self.looked_at = 0
        self._slices = slices
        self._on: list[list[_Hold]] = [[] for _ in self.gpus]
        self._by_key: dict[int, tuple[_Hold, ...]] = {}
        self._state = [0] * len(self.gpus)
        self._last = [0.0] * len(self.gpus)
        # Row by GPU: when its leases end, ascending, and the slices held before, between and after these ends.
        self._ends = np.full((len(self.gpus), slices), inf)
        self._masks = np.zeros((len(self.gpus), slices + 1), dtype=np.int64)
        self._buckets: dict[int, list[tuple[float, int]]] = {0: [(0.0, at) for at in range(len(self.gpus))]}
        self._nodes = _FreeGpus([gpu[1] for gpu in self.gpus])

    def place(self, key: int, shape: str, now: float, until: float) -> Placement | None:
        """Hold a span of the shape from now on under ``key``, or return None if no GPU has one free."""
        row = self.tables.position[shape]
        self.lengths.add(until - now)
        candidates = self._candidates(row, until)
        self.looked_at = len(candidates)
        self.refusals.add(self.tables.shapes[row].size, refused=not candidates)
        if not candidates:
            return None
        position, span = self._cheapest(row, candidates, now, until)
        self._by_key[key] = (self._hold(position, span, row, until),)
        return self._placement(0, position, span)

    def place_gang(self, key: int, ranks: int, now: float, until: float) -> tuple[Placement, ...]:
        """Hold that many whole GPUs of one node under ``key``, or return () if no node has them free."""
        self.lengths.add(until - now)
        positions = self._nodes.choose(ranks)
        if not positions:
            return ()
        whole = (1 << self._slices) - 1
        row = self._whole_row()
        self._by_key[key] = tuple(self._hold(position, whole, row, until) for position in positions)
        return tuple(self._placement(rank, position, whole) for rank, position in enumerate(positions))

    def release(self, key: int) -> None:
        """Let go what ``key`` holds; nothing happens if it holds nothing."""
        for hold in self._by_key.pop(key, ()):
            self._on[hold.position].remove(hold)
            self._renew(hold.position)

    def held(self, position: int) -> int:
        """The set of slices held on the GPU at this place of ``gpus``."""
        return self._state[position] & ((1 << self._slices) - 1)

    def _candidates(self, row: int, until: float) -> list[int]:
        fits = self.tables.fits[row]
        sets = (1 << self._slices) - 1
        full = 1 << (self._slices + row)
        found: list[int] = []
        for state, bucket in self._buckets.items():
            if not fits[state & sets] or state & full:
                continue
            if not state:
                found.append(self._nodes.first())
            elif len(bucket) <= 2 * NEAR:
                found += [at for _last, at in bucket]
            else:
                begin = min(max(bisect_left(bucket, (until, 0)) - NEAR, 0), len(bucket) - 2 * NEAR)
                found += [at for _last, at in bucket[begin : begin + 2 * NEAR]]
        found.sort()
        return found

    def _cheapest(self, row: int, candidates: list[int], now: float, until: float) -> tuple[int, int]:
        """(position, span) of the lowest score, then the first GPU, then the first start."""
        losses = self._prices[self.refusals.price].losses[row]
        masks = self._masks[candidates]
        shares = self._shares(self._ends[candidates], now, until)
        scores = losses[-1][masks[:, 0]]
        for horizon in range(len(HORIZONS)):
            scores = scores + np.einsum("gt,gts->gs", shares[horizon], losses[horizon][masks])
        place, index = divmod(int(scores.round(DIGITS).argmin()), scores.shape[1])
        return candidates[place], self.tables.spans[row][index]

    def _shares(self, ends: NDArray[np.float64], now: float, until: float) -> NDArray[np.float64]:
        """By horizon, GPU and stretch between ends: how much the stretch counts, which is the less the later it is."""
        scale = self.lengths.mean * np.array(HORIZONS)
        ahead = np.minimum(ends, until) - now
        left = np.exp(-ahead[None] / scale[:, None, None])
        edges = np.ones((len(HORIZONS), len(ends), self._slices + 2))
        edges[:, :, 1:-1] = left
        edges[:, :, -1] = np.exp(-(until - now) / scale)[:, None]
        return edges[:, :, :-1] - edges[:, :, 1:]

    def _hold(self, position: int, span: int, row: int, until: float) -> _Hold:
        hold = _Hold(until, span, position, row)
        insort(self._on[position], hold)
        self._renew(position)
        return hold

    def _renew(self, position: int) -> None:
        """Write the GPU's rows and move it to its bucket."""
        holds = self._on[position]
        mask = 0
        for hold in holds:
            mask |= hold.span
        state = mask | self._full_for(holds)
        self._rebucket(position, state, holds[-1].until if holds else 0.0)
        ends, masks = [inf] * self._slices, [0] * (self._slices + 1)
        for at, hold in enumerate(holds):
            ends[at], masks[at] = hold.until, mask
            mask &= ~hold.span
        self._ends[position] = ends
        self._masks[position] = masks

    def _full_for(self, holds: list[_Hold]) -> int:
        """One bit above the slices for each shape of which the GPU has all that the driver allows."""
        full = 0
        for row, together in self.tables.counted_with.items():
            if sum(hold.row in together for hold in holds) >= self.tables.shapes[row].max_count:
                full |= 1 << (self._slices + row)
        return full

    def _rebucket(self, position: int, state: int, last: float) -> None:
        was, was_last = self._state[position], self._last[position]
        bucket = self._buckets[was]
        del bucket[bisect_left(bucket, (was_last, position))]
        if not bucket:
            del self._buckets[was]
        insort(self._buckets.setdefault(state, []), (last, position))
        self._state[position], self._last[position] = state, last
        if bool(was) != bool(state):
            self._nodes.turn(position, is_free=not state)

    def _whole_row(self) -> int:
        return next(row for row, shape in enumerate(self.tables.shapes) if shape.size == self._slices)

    def _placement(self, rank: int, position: int, span: int) -> Placement:
        start = (span & -span).bit_length() - 1
        return Placement(rank, self.gpus[position][0], start, span.bit_length())


class _Lengths:
    """The mean of what was asked for so far, beginning with a guess that counts as much as ``weight`` requests."""

    def __init__(self, guess_seconds: float, weight: int = 20) -> None:
        self._sum = guess_seconds * weight
        self._count = weight

    @property
    def mean(self) -> float:
        return self._sum / self._count

    def add(self, seconds: float) -> None:
        self._sum += seconds
        self._count += 1


class _Refusals:
    """The share of what was asked for lately that found no place, in slices."""

    def __init__(self, asks: int = 3000) -> None:
        self._keep = 1 - 1 / asks
        self._asked = self._refused = 0.0

    @property
    def price(self) -> int:
        """In steps."""
        share = self._refused / self._asked if self._asked else 0.0
        part = (share - LITTLE_REFUSED) / (MUCH_REFUSED - LITTLE_REFUSED)
        return round(PRICE_STEPS * min(max(part, 0.0), 1.0))

    def add(self, slices: int, *, refused: bool) -> None:
        self._asked = self._asked * self._keep + slices
        self._refused = self._refused * self._keep + slices * refused


class _FreeGpus:
    """Nodes by how many of their GPUs hold nothing. Positions ascend by node."""

    def __init__(self, node_of: list[int]) -> None:
        self._node_of = node_of
        self._free: dict[int, list[int]] = {}
        for position, node in enumerate(node_of):
            self._free.setdefault(node, []).append(position)
        self._by_count: dict[int, list[int]] = {}
        for node, positions in self._free.items():
            insort(self._by_count.setdefault(len(positions), []), node)

    def first(self) -> int:
        """A free GPU of a node with the fewest of them. There must be one."""
        return self.choose(1)[0]

    def choose(self, count: int) -> list[int]:
        """That many free GPUs of the node that has the fewest beside, or none."""
        enough = [free for free, nodes in self._by_count.items() if free >= count and nodes]
        if not enough:
            return []
        return self._free[self._by_count[min(enough)][0]][:count]

    def turn(self, position: int, *, is_free: bool) -> None:
        node = self._node_of[position]
        positions = self._free[node]
        nodes = self._by_count[len(positions)]
        del nodes[bisect_left(nodes, node)]
        if is_free:
            insort(positions, position)
        else:
            positions.remove(position)
        insort(self._by_count.setdefault(len(positions), []), node)
