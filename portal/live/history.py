"""The measured past of a lease, for charts."""

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

from portal.live.buckets import BUCKET_SECONDS
from portal.live.models import UseBucket
from portal.live.rollups import WIDE_SECONDS
from portal.reservations.models import Lease

POINTS_MOST = 720


class Point(NamedTuple):
    """Means of one bucket that begins ``at``: percent, MiB, percent, percent of one core. None is a gap."""

    at: dt.datetime
    util: float | None
    mem: int | None
    tensor: float | None
    cpu: float | None


def history(lease: Lease, since: dt.datetime, until: dt.datetime) -> list[Point]:
    """Points of equal distance over [since, until): every 10 s while that makes at most 720, else every 5 min.

    Where nothing was measured there is a point of Nones, so that a chart shows a gap and no line across it.
    One query, at most 720 points; of a longer time the last ones.
    """
    if until <= since:
        return []
    fine = (until - since).total_seconds() <= POINTS_MOST * BUCKET_SECONDS
    seconds = BUCKET_SECONDS if fine else WIDE_SECONDS
    moments = list(_moments(since, until, seconds))[-POINTS_MOST:]
    if not moments:
        return []
    rows = UseBucket.objects.filter(lease=lease, seconds=seconds, at__gte=moments[0], at__lt=until)
    measured = {
        at: Point(at, *means)
        for at, *means in rows.values_list("at", "utilization", "memory_used_mib", "tensor", "cpu_percent")
    }
    return [measured.get(at) or Point(at, None, None, None, None) for at in moments]


def _moments(since: dt.datetime, until: dt.datetime, seconds: int) -> Iterator[dt.datetime]:
    number = -int(-since.timestamp() // seconds)  # the first bucket that begins within
    while (at := dt.datetime.fromtimestamp(number * seconds, dt.UTC)) < until:
        yield at
        number += 1
