"""Requests one after the other before a placer: what it accepts, and what of the limit is lost."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.bench.placement.baselines import Placer
from tests.bench.placement.demand import SHAPES, Request


@dataclass
class Tally:
    """Slice-seconds by shape, added up over seeds; ``within``: held during the ``seconds`` in which requests came."""

    asked: NDArray[np.float64]
    accepted: NDArray[np.float64]
    within: float
    seconds: float

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.asked + other.asked,
            self.accepted + other.accepted,
            self.within + other.within,
            self.seconds + other.seconds,
        )

    @property
    def total(self) -> float:
        return float(self.accepted.sum())

    @property
    def percent(self) -> NDArray[np.float64]:
        """By shape, of what was asked for; NaN where nothing was."""
        asked = np.where(self.asked > 0, self.asked, np.nan)
        return 100 * self.accepted / asked


def replay(requests: Sequence[Request], placer: Placer, warm_up: int = 0) -> Tally:
    """The first ``warm_up`` requests fill the fleet and are not counted."""
    asked, accepted, within = [0.0] * len(SHAPES), [0.0] * len(SHAPES), 0.0
    since, until = requests[warm_up].start, requests[-1].start
    running: list[tuple[float, int]] = []
    for key, request in enumerate(requests):
        while running and running[0][0] <= request.start:
            placer.release(heapq.heappop(running)[1])
        is_placed = placer.place(key, request)
        if is_placed:
            heapq.heappush(running, (request.end, key))
            within += request.slices * max(0.0, min(request.end, until) - max(request.start, since))
        if key >= warm_up:
            asked[request.row] += request.slice_seconds
            accepted[request.row] += is_placed * request.slice_seconds
    return Tally(np.array(asked), np.array(accepted), within, until - since)


def points_below(tally: Tally, peer: Tally) -> float:
    """By how many points of what was asked for the tally is below the peer in the shape where it is most."""
    return float(np.nanmax(peer.percent - tally.percent))


def by_shape(tally: Tally) -> str:
    parts = zip(SHAPES, tally.percent.tolist(), strict=True)
    return ", ".join(f"{shape.name} {percent:.1f} %" for shape, percent in parts if percent == percent)
