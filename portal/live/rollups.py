"""Sums of the fine means: 5 min buckets that are kept, and the end of the 10 s buckets that are not."""

import datetime as dt

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max, Min
from django.utils import timezone

from portal.live.buckets import BUCKET_SECONDS
from portal.live.models import UseBucket

WIDE_SECONDS = 300
SETTLE_SECONDS = 60  # after this nothing is written into a bucket any more
WINDOWS_A_PASS = 12
ROWS_A_PASS = 10_000

_ROLL_UP = """
INSERT INTO live_usebucket (lease_id, at, seconds, utilization, tensor, memory_used_mib, memory_peak_mib, cpu_percent,
                            measured_seconds, busy_ms)
SELECT lease_id, to_timestamp(floor(extract(epoch FROM at) / %(wide)s) * %(wide)s), %(wide)s,
       sum(busy_ms) / nullif(sum(measured_seconds) * 10.0, 0), avg(tensor), round(avg(memory_used_mib)),
       max(memory_peak_mib), avg(cpu_percent), sum(measured_seconds), sum(busy_ms)
FROM live_usebucket
WHERE seconds = %(fine)s AND at >= %(since)s AND at < %(until)s
GROUP BY 1, 2
ON CONFLICT DO NOTHING
"""


def roll_up(now: dt.datetime | None = None) -> int:
    """Sum up to an hour of finished 5 min windows that have no sums yet, oldest first; returns the rows written.

    A measurable share of nothing stays None, and utilization is weighted by the seconds that were measured.
    """
    settled = (now or timezone.now()) - dt.timedelta(seconds=SETTLE_SECONDS)
    done_until = UseBucket.objects.filter(seconds=WIDE_SECONDS).aggregate(last=Max("at"))["last"]
    fine = UseBucket.objects.filter(seconds=BUCKET_SECONDS)
    if done_until is not None:
        fine = fine.filter(at__gte=done_until + dt.timedelta(seconds=WIDE_SECONDS))
    first = fine.aggregate(first=Min("at"))["first"]
    if first is None:
        return 0
    since = _window_start(first)
    until = min(since + dt.timedelta(seconds=WIDE_SECONDS * WINDOWS_A_PASS), _window_start(settled))
    values: dict[str, int | dt.datetime] = {"wide": WIDE_SECONDS, "fine": BUCKET_SECONDS}
    values |= {"since": since, "until": until}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_ROLL_UP, values)
        return cursor.rowcount


def forget_old_samples(now: dt.datetime | None = None) -> int:
    """Delete 10 s means past their retention, at most 10,000 at a time; the 5 min sums stay."""
    limit = (now or timezone.now()) - settings.SAMPLE_RETENTION
    old = UseBucket.objects.filter(seconds=BUCKET_SECONDS, at__lt=limit).values("pk")[:ROWS_A_PASS]
    return UseBucket.objects.filter(pk__in=old).delete()[0]


def _window_start(at: dt.datetime) -> dt.datetime:
    return dt.datetime.fromtimestamp(at.timestamp() // WIDE_SECONDS * WIDE_SECONDS, dt.UTC)
