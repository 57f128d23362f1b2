"""A stretch of a recording as a rule sees it: means over the seconds that count, of the GPUs that are used."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Lease, Recording, mean_of

# Whether anything ran: SM activity stands in where kernels are not measured. As it covers less, it is never "busy".
ACTIVITY = "activity"
HOST = (
    "cpu_util_of_limit",
    "cpu_throttled_frac",
    "cpu_wait",
    "io_wait",
    "disk_read_mib_s",
    "net_rx_mib_s",
    "net_tx_mib_s",
)


@dataclass(frozen=True)
class View:
    """``counts``: the seconds after a warm-up; ``start`` and ``end`` bound the stretch."""

    recording: Recording
    counts: np.ndarray
    start: int
    end: int

    @property
    def lease(self) -> Lease:
        return self.recording.lease

    @property
    def span(self) -> tuple[int, int]:
        inside = np.flatnonzero(self.counts[self.start : self.end])
        return (
            (self.start + int(inside[0]), self.start + int(inside[-1]) + 1) if len(inside) else (self.start, self.start)
        )

    @cached_property
    def used_ranks(self) -> tuple[int, ...]:
        """Those that do anything, or all where none does."""
        least = LIMITS["unused_gpu"]["activity_most"]
        used = [rank for rank in self.all_ranks if not self._rank_mean(ACTIVITY, rank) < least]
        return tuple(used) if used else self.all_ranks

    @property
    def all_ranks(self) -> tuple[int, ...]:
        return tuple(range(len(self.recording.ranks)))

    def values(self, name: str, rank: int | None = None) -> np.ndarray:
        """Second by second: of one rank, or the mean of those used. What is the container's is the same for all."""
        if rank is None and name in HOST:
            rank = 0
        ranks = self.used_ranks if rank is None else (rank,)
        part = slice(self.start, self.end)
        arrays = [self.recording.series(name, one)[part] for one in ranks]
        if name == ACTIVITY:
            arrays = [self.recording.activity(one)[part] for one in ranks]
        return np.where(self.counts[part], mean_of(arrays), np.nan)

    def knows(self, *names: str) -> bool:
        return all(self._is_enough(self.values(name)) for name in names)

    def knows_of_each(self, name: str) -> bool:
        return all(self._is_enough(self.values(name, rank)) for rank in self.all_ranks)

    def mean(self, name: str, rank: int | None = None) -> float:
        return _mean(self.values(name, rank))

    def _rank_mean(self, name: str, rank: int) -> float:
        values = self.recording.activity(rank) if name == ACTIVITY else self.recording.series(name, rank)
        return _mean(np.where(self.counts, values, np.nan)[self.start : self.end])

    def _is_enough(self, values: np.ndarray) -> bool:
        """Seconds that arrived for no metric at all count against none."""
        limit = LIMITS["gate"]
        known = int(np.isfinite(values).sum())
        expected = int(self.counts[self.start : self.end].sum())
        return known >= limit["samples_least"] and known >= limit["coverage_least"] * expected

    @cached_property
    def busy(self) -> float:
        return self.mean("gr_active")

    @cached_property
    def work(self) -> float:
        """The share of the machine's time that was used; NaN where SM activity is not measured."""
        return self.mean("sm_active") if self.knows("sm_active") else float("nan")

    @cached_property
    def fill(self) -> float:
        """How much of the GPU was covered while anything ran."""
        return self.work / self.busy if self.busy >= LIMITS["slice_too_big"]["busy_least"] else float("nan")

    @cached_property
    def cores(self) -> float:
        return self.mean("cpu_util_of_limit") * (self.lease.cpu_limit or float("nan"))

    def coverage(self, *names: str) -> float:
        """Of the seconds that count, the share that is known of the metric known least."""
        expected = max(int(self.counts[self.start : self.end].sum()), 1)
        return min((np.isfinite(self.values(name)).sum() / expected for name in names), default=1.0)


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
