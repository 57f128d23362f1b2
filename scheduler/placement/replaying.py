"""Demand as it was on a fleet as it might be: what would have begun, after what wait, and what stood in the way."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from scheduler.placement.capacity import capacity_of
from scheduler.placement.policies import Fleet, Policy


class Bound(StrEnum):
    """Why an ask did not begin at once. Layout: repacked, all would have had room."""

    TOO_LARGE = "too_large"
    QUOTA = "quota"
    CAPACITY = "capacity"
    LAYOUT = "layout"


@dataclass(frozen=True)
class Ask:
    """``ranks`` of the shape from ``start`` on; None is a shape that the fleet does not have. Placement knows
    ``planned_seconds``; it then lasts ``seconds``.

    ``limits`` are (which, how much), each of what all asks that name it may weigh together at one moment.
    """

    start: float
    planned_seconds: float
    seconds: float
    shape: str | None
    ranks: int = 1
    weight: int = 0
    limits: tuple[tuple[int, int], ...] = ()


@dataclass
class Outcome:
    """``waits`` are those of asks that began; ``bound`` counts the asks that did not begin at once."""

    asked: int = 0
    waits: list[float] = field(default_factory=list)
    held_slice_seconds: float = 0.0
    slice_seconds: float = 0.0
    bound: Counter[Bound] = field(default_factory=Counter)

    @property
    def accepted(self) -> float:
        return len(self.waits) / self.asked if self.asked else 0.0

    @property
    def allocated(self) -> float:
        """Of all slice-time of the fleet, that which somebody held who had asked for just that much."""
        return self.held_slice_seconds / self.slice_seconds if self.slice_seconds else 0.0

    @property
    def wait_mean(self) -> float:
        return sum(self.waits) / len(self.waits) if self.waits else 0.0

    def wait_seconds(self, quantile: float) -> float:
        waits = sorted(self.waits)
        return waits[min(int(quantile * len(waits)), len(waits) - 1)] if waits else 0.0


def replay(asks: Iterable[Ask], fleet: Fleet, policy: Policy, patience_seconds: float) -> Outcome:
    """All asks in the order of their starts. What finds no place waits in that order, may be passed by what does,
    and leaves after ``patience_seconds``. Slice-time is counted from the first start to the last."""
    ordered = sorted(asks, key=lambda ask: ask.start)
    if not ordered:
        return Outcome()
    course = _Course(fleet, policy, patience_seconds, ordered[0].start, ordered[-1].start)
    for ask in ordered:
        course.advance(ask.start)
        course.arrive(ask)
    course.advance(inf)
    return course.outcome


class _Course:
    def __init__(self, fleet: Fleet, policy: Policy, patience_seconds: float, since: float, until: float) -> None:
        self.outcome = Outcome(slice_seconds=len(fleet.gpus) * fleet.slices * (until - since))
        self._fleet = fleet
        self._policy = policy
        self._patience = patience_seconds
        self._since, self._until = since, until
        self._capacity = capacity_of(fleet.shapes, fleet.slices)
        self._sizes = {shape.name: shape.size for shape in fleet.shapes}
        self._running: list[tuple[float, int, Ask]] = []
        self._waiting: list[Ask] = []
        self._ranks: Counter[str] = Counter()
        self._weights: Counter[int] = Counter()

    def arrive(self, ask: Ask) -> None:
        self.outcome.asked += 1
        if self._begin(ask, ask.start):
            return
        bound, is_final = self._why(ask)
        self.outcome.bound[bound] += 1
        if not is_final:
            self._waiting.append(ask)

    def advance(self, until: float) -> None:
        """Let end what ends by then, and begin what waited for it."""
        while self._running and self._running[0][0] <= until:
            now = self._running[0][0]
            while self._running and self._running[0][0] <= now:
                self._end()
            self._serve(now)

    def _serve(self, now: float) -> None:
        """Who asks for the same as one that did not fit does not fit either."""
        in_vain: set[tuple[str | None, int, int, tuple[tuple[int, int], ...]]] = set()
        still: list[Ask] = []
        for ask in self._waiting:
            if now - ask.start > self._patience:
                continue
            wanted = (ask.shape, ask.ranks, ask.weight, ask.limits)
            if wanted in in_vain or not self._begin(ask, now):
                in_vain.add(wanted)
                still.append(ask)
        self._waiting = still

    def _begin(self, ask: Ask, now: float) -> bool:
        key = len(self.outcome.waits)
        if ask.shape is None or self._is_over(ask):
            return False
        if not self._policy.place(key, ask.shape, ask.ranks, now, now + ask.planned_seconds):
            return False
        end = now + ask.seconds
        heapq.heappush(self._running, (end, key, ask))
        self._count(ask, 1)
        self.outcome.waits.append(now - ask.start)
        within = max(0.0, min(end, self._until) - max(now, self._since))
        self.outcome.held_slice_seconds += self._sizes[ask.shape] * ask.ranks * within
        return True

    def _end(self) -> None:
        _end, key, ask = heapq.heappop(self._running)
        self._policy.release(key)
        self._count(ask, -1)

    def _count(self, ask: Ask, sign: int) -> None:
        self._ranks[ask.shape or ""] += sign * ask.ranks
        for limit, _most in ask.limits:
            self._weights[limit] += sign * ask.weight

    def _is_over(self, ask: Ask) -> bool:
        return any(self._weights[limit] + ask.weight > most for limit, most in ask.limits)

    def _why(self, ask: Ask) -> tuple[Bound, bool]:
        """And whether it is so for ever."""
        gpus = len(self._fleet.gpus)
        if ask.shape is None or not self._capacity.fits({ask.shape: ask.ranks}, gpus):
            return Bound.TOO_LARGE, True
        if self._is_over(ask):
            return Bound.QUOTA, any(ask.weight > most for _limit, most in ask.limits)
        counts = self._ranks + Counter({ask.shape: ask.ranks})
        return (Bound.LAYOUT if self._capacity.fits(counts, gpus) else Bound.CAPACITY), False
