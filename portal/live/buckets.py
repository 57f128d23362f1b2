"""Means over 10 s, one row per lease, from samples as they arrive. What is not measurable never counts as zero."""

import datetime as dt
import logging
from dataclasses import dataclass, field

from agents.protocol import LeaseSample
from portal.live.models import UseBucket

log = logging.getLogger(__name__)

BUCKET_SECONDS = 10
LONGEST_STEP_SECONDS = 2.0  # a sample stands for the time since the one before it, and for no gap
FIRST_STEP_SECONDS = 1.0
ROWS_MOST = 5000


@dataclass
class Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass
class Bucket:
    """Sums of one lease in one bucket. Times are by the portal's clock, so no agent can measure more than there was."""

    last_at: float = 0.0
    measured_ms: float = 0.0
    busy_ms: float = 0.0
    memory_peak_mib: int | None = None
    tensor: Mean = field(default_factory=Mean)
    memory: Mean = field(default_factory=Mean)
    cpu: Mean = field(default_factory=Mean)

    def add(self, sample: LeaseSample, at: float, step_seconds: float) -> None:
        if sample.utilization is not None:
            self.measured_ms += step_seconds * 1000
            self.busy_ms += step_seconds * 10 * sample.utilization
        self.tensor.add(sample.tensor)
        self.cpu.add(sample.cpu_percent)
        self.memory.add(sample.memory_used_mib)
        if sample.memory_used_mib is not None:
            self.memory_peak_mib = max(sample.memory_used_mib, self.memory_peak_mib or 0)
        self.last_at = at

    def row(self, lease_id: int, number: int) -> UseBucket:
        most_ms = BUCKET_SECONDS * 1000
        memory = self.memory.value
        return UseBucket(
            lease_id=lease_id, at=dt.datetime.fromtimestamp(number * BUCKET_SECONDS, dt.UTC), seconds=BUCKET_SECONDS,
            utilization=100 * self.busy_ms / self.measured_ms if self.measured_ms else None,
            tensor=self.tensor.value, memory_used_mib=None if memory is None else round(memory),
            memory_peak_mib=self.memory_peak_mib, cpu_percent=self.cpu.value,
            measured_seconds=round(min(self.measured_ms, most_ms) / 1000), busy_ms=round(min(self.busy_ms, most_ms)),
        )  # fmt: skip


class Buckets:
    """Samples in, finished rows out. Belongs to a process, so that a node that reconnects goes on in its bucket."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], Bucket] = {}  # by lease and number of the bucket since the epoch
        self._last: dict[int, float] = {}

    def add(self, sample: LeaseSample, at: float) -> None:
        """``at`` is the receive time in seconds since the epoch."""
        before = self._last.get(sample.lease_id, at - FIRST_STEP_SECONDS)
        step_seconds = min(LONGEST_STEP_SECONDS, max(0.0, at - before))
        self._last[sample.lease_id] = at
        key = (sample.lease_id, int(at // BUCKET_SECONDS))
        self._open.setdefault(key, Bucket()).add(sample, at, step_seconds)

    def take_finished(self, now: float) -> list[UseBucket]:
        """Rows of the buckets that are over, at most 5000 at a time; each is handed out once."""
        current = int(now // BUCKET_SECONDS)
        finished = [key for key in self._open if key[1] < current][:ROWS_MOST]
        rows = [self._open.pop(key).row(*key) for key in finished]
        for lease_id in [lease_id for lease_id, at in self._last.items() if now - at > 2 * BUCKET_SECONDS]:
            del self._last[lease_id]
        return rows

    def take_all(self) -> list[UseBucket]:
        """For the end of the process: unfinished buckets too, which hold what was measured so far."""
        rows = [bucket.row(*key) for key, bucket in self._open.items()]
        self._open.clear()
        return rows


def write_rows(rows: list[UseBucket]) -> None:
    """One insert; a bucket that is there already stays as it is."""
    UseBucket.objects.bulk_create(rows, ignore_conflicts=True)
