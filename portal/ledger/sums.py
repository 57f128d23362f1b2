"""Summing the ledger up by day, comparing the sums with it, and making them anew.

A day is summed once it is over, so that one batch holds a row for each tenant and pool of the day and not one for each
lease; before that only where many entries wait. What comes late adds rows to old days. One pass at a time: each locks
the table of batches, which no reader does.
"""

import datetime as dt
from dataclasses import dataclass

from django.db import connection, transaction
from django.utils import timezone

from portal.ledger.models import SumBatch

WAITING_MOST = 2000
BATCH_MOST = 20_000
WALK_SECONDS = 200

# A lease is ready once both what opened and what closed it wait, whichever was written first.
READY = """
    SELECT w.entry_id, o.entry_id AS opened_id
    FROM ledger_unsummedentry w
    JOIN ledger_ledgerentry e ON e.id = w.entry_id
    LEFT JOIN ledger_unsummedentry o ON o.lease_id = w.lease_id AND o.kind = 'opened' AND w.kind = 'closed'
    WHERE (w.kind = 'corrected' OR o.entry_id IS NOT NULL) AND (%(before)s::timestamptz IS NULL OR e.at < %(before)s)
"""
# An instant counts as the whole second it lies in, as in ``folding``. An hour and not a day is the step of a UTC day:
# a day would be one of the session's zone.
FOLDED = """
    SELECT (day AT TIME ZONE 'UTC')::date AS day, tenant_id, pool_id,
        sum(amount)::bigint AS slice_seconds, array_agg(entry_id ORDER BY entry_id) AS entries
    FROM (
        SELECT c.id AS entry_id, o.tenant_id, o.pool_id, day, o.weight * (
            floor(extract(epoch FROM least(c.at, day + interval '24 hours')))
            - floor(extract(epoch FROM greatest(o.at, day)))) AS amount
        FROM ledger_ledgerentry c
        JOIN ledger_ledgerentry o ON o.lease_id = c.lease_id AND o.kind = 'opened' AND o.at < c.at
        CROSS JOIN LATERAL generate_series(date_trunc('day', o.at, 'UTC'), c.at, interval '24 hours') AS day
        WHERE c.kind = 'closed' AND {chosen}
        UNION ALL
        SELECT c.id, c.tenant_id, c.pool_id, date_trunc('day', c.at, 'UTC'), c.weight * c.seconds
        FROM ledger_ledgerentry c
        WHERE c.kind = 'corrected' AND {chosen}
    ) AS pieces
    WHERE amount <> 0
    GROUP BY 1, 2, 3
"""
SUM_UP = f"""
WITH ready AS MATERIALIZED ({READY} ORDER BY w.entry_id LIMIT %(most)s), taken AS (
    DELETE FROM ledger_unsummedentry
    WHERE entry_id IN (SELECT entry_id FROM ready UNION ALL SELECT opened_id FROM ready WHERE opened_id IS NOT NULL)
), written AS (
    INSERT INTO ledger_dailysum (batch_id, day, tenant_id, pool_id, slice_seconds, entries)
    SELECT %(batch)s, day, tenant_id, pool_id, slice_seconds, entries
    FROM ({FOLDED.format(chosen="c.id IN (SELECT entry_id FROM ready)")}) AS folded
)
SELECT count(*) FROM ready
"""
PUT_BACK = """
INSERT INTO ledger_unsummedentry (entry_id, lease_id, kind)
SELECT id, lease_id, kind FROM ledger_ledgerentry ON CONFLICT DO NOTHING
"""
# Amounts, and how many entries with which ids they are the sum of.
DIFFERENCES = f"""
WITH expected AS (
    {FOLDED.format(chosen="NOT EXISTS (SELECT 1 FROM ledger_unsummedentry w WHERE w.entry_id = c.id)")}
), found AS (
    SELECT day, tenant_id, pool_id, sum(slice_seconds)::bigint AS slice_seconds, sum(cardinality(entries)) AS many,
        sum((SELECT sum(id) FROM unnest(entries) AS id)) AS ids
    FROM ledger_dailysum
    WHERE batch_id >= (SELECT coalesce(max(id), 0) FROM ledger_sumbatch WHERE rebuilt)
    GROUP BY 1, 2, 3
)
SELECT day, tenant_id, pool_id, coalesce(expected.slice_seconds, 0), coalesce(found.slice_seconds, 0)
FROM expected FULL JOIN found USING (day, tenant_id, pool_id)
WHERE expected.slice_seconds IS DISTINCT FROM found.slice_seconds
    OR cardinality(expected.entries) IS DISTINCT FROM found.many
    OR (SELECT sum(id) FROM unnest(expected.entries) AS id) IS DISTINCT FROM found.ids
ORDER BY 1, 2, 3
"""
# Not waiting, and no sum can hold it: what opened or closed a lease without the other.
LOST = """
SELECT e.id FROM ledger_ledgerentry e
WHERE e.kind <> 'corrected' AND NOT EXISTS (SELECT 1 FROM ledger_unsummedentry w WHERE w.entry_id = e.id)
    AND NOT EXISTS (
        SELECT 1 FROM ledger_ledgerentry other
        WHERE other.lease_id = e.lease_id AND other.kind NOT IN (e.kind, 'corrected')
            AND NOT EXISTS (SELECT 1 FROM ledger_unsummedentry w WHERE w.entry_id = other.id))
ORDER BY e.id
"""


@dataclass(frozen=True)
class Difference:
    """Where the sums say something else than the ledger, in weighted slice-seconds."""

    day: dt.date
    tenant_id: int
    pool_id: int
    expected: int
    found: int

    def __str__(self) -> str:
        return f"{self.day} tenant {self.tenant_id} pool {self.pool_id}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Comparison:
    """``lost`` are ids of entries that neither wait to be summed nor are in any sum."""

    differences: tuple[Difference, ...]
    lost: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.lost


@transaction.atomic
def sum_up(now: dt.datetime | None = None, *, waiting_most: int = WAITING_MOST) -> int:
    """Sum what waits from days that are over, or everything once more than ``waiting_most`` entries wait.

    Returns how many entries were summed. Bounded, and safe to run twice.
    """
    midnight = (now or timezone.now()).astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    _lock()
    before = None if _waiting() > waiting_most else midnight
    if not _is_ready(before):
        return 0
    return _sum(SumBatch.objects.create(), before, BATCH_MOST)


@transaction.atomic
def rebuild() -> int:
    """Make every sum anew from the ledger; the batches before are void from then on. Returns the number of entries."""
    _lock(a_walk=True)
    with connection.cursor() as cursor:
        cursor.execute(PUT_BACK)
    return _sum(SumBatch.objects.create(rebuilt=True), None, None)


@transaction.atomic
def compare() -> Comparison:
    """The sums against the ledger, row by row. Walks the whole history."""
    _lock(a_walk=True)
    with connection.cursor() as cursor:
        cursor.execute(DIFFERENCES)
        differences = tuple(Difference(*row) for row in cursor.fetchall())
        cursor.execute(LOST)
        return Comparison(differences, tuple(row[0] for row in cursor.fetchall()))


def _lock(a_walk: bool = False) -> None:
    """Until the transaction ends; a walk over the whole history may take longer than what a page waits for."""
    with connection.cursor() as cursor:
        if a_walk:
            cursor.execute("SET LOCAL statement_timeout = %s", [f"{WALK_SECONDS}s"])
        cursor.execute("LOCK TABLE ledger_sumbatch IN SHARE ROW EXCLUSIVE MODE")


def _waiting() -> int:
    """Entries that could be summed now."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({READY}) AS ready", {"before": None})
        return int(cursor.fetchone()[0])


def _is_ready(before: dt.datetime | None) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS ({READY})", {"before": before})
        return bool(cursor.fetchone()[0])


def _sum(batch: SumBatch, before: dt.datetime | None, most: int | None) -> int:
    with connection.cursor() as cursor:
        cursor.execute(SUM_UP, {"batch": batch.pk, "before": before, "most": most})
        return int(cursor.fetchone()[0])
