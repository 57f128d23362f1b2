"""What leases used, as series for charts: evenly spaced means, None where nothing was measured.

The means are written by portal.live and read here through the lease, since live stands above reservations.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from portal.reservations.models import Lease

FINE_SECONDS, COARSE_SECONDS = 10, 300
# A mean is written some time after its step is over: a series ends there, and the live values go on from it.
KEPT_AFTER = dt.timedelta(seconds=30)
FIELDS = ("utilization", "memory_used_mib", "tensor", "cpu_percent")


@dataclass(frozen=True)
class Stretch:
    """``points`` means of ``step`` seconds each that end with the step in which ``until`` lies."""

    until: dt.datetime
    step: int
    points: int

    @property
    def first_step(self) -> int:
        return int(self.until.timestamp()) // self.step - self.points + 1

    @property
    def since(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.first_step * self.step, dt.UTC)


def stretch_over(since: dt.datetime, until: dt.datetime, points: int = 120) -> Stretch:
    """A stretch that covers the whole span in at most ``points`` steps of full 10 s."""
    seconds = max(60, (until - since).total_seconds())
    step = -(-int(seconds / points) // FINE_SECONDS) * FINE_SECONDS or FINE_SECONDS
    if step > COARSE_SECONDS:
        step = -(-step // COARSE_SECONDS) * COARSE_SECONDS
    return Stretch(until, step, min(points, int(seconds // step) + 1))


Series = dict[str, list[float | None]]


def best_series(lease_id: int, stretch: Stretch) -> tuple[Stretch, Series]:
    """The series of one lease; in steps of 5 min where only those of so long ago are kept.

    A lease that has only just started has neither: its live values go into fine steps.
    """
    fine = use_series([lease_id], stretch)[lease_id]
    if stretch.step >= COARSE_SECONDS or _any_known(fine):
        return stretch, fine
    points = max(2, -(-stretch.step * stretch.points // COARSE_SECONDS) + 1)
    coarse = Stretch(stretch.until, COARSE_SECONDS, points)
    rolled_up = use_series([lease_id], coarse)[lease_id]
    return (coarse, rolled_up) if _any_known(rolled_up) else (stretch, fine)


def use_series(lease_ids: Iterable[int], stretch: Stretch) -> dict[int, Series]:
    """One query: per lease and field the mean of each step, oldest first."""
    width = COARSE_SECONDS if stretch.step >= COARSE_SECONDS else FINE_SECONDS
    lease_ids = list(lease_ids)
    rows = Lease.objects.filter(
        pk__in=lease_ids, use__seconds=width, use__at__gte=stretch.since, use__at__lte=stretch.until
    ).values_list("pk", "use__at", *(f"use__{name}" for name in FIELDS))
    found: dict[tuple[int, str, int], list[float]] = defaultdict(list)
    for lease_id, at, *values in rows:
        place = int(at.timestamp()) // stretch.step - stretch.first_step
        for name, value in zip(FIELDS, values, strict=True):
            if value is not None:
                found[lease_id, name, place].append(value)
    places = range(stretch.points)
    return {
        lease_id: {name: [_mean(found.get((lease_id, name, place))) for place in places] for name in FIELDS}
        for lease_id in lease_ids
    }


def _any_known(series: Series) -> bool:
    return any(known(values) for values in series.values())


def _mean(values: list[float] | None) -> float | None:
    return round(sum(values) / len(values), 1) if values else None


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
