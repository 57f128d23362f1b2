"""The sums under budgets, in one query whatever the number of subtrees and times asked for.

What was held is read from the ledger's sums of whole UTC days, from raw rows only for the parts of days at the edges,
and from what no sum holds yet, live leases among it: a year is never walked lease by lease.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from portal.ledger.folding import cut_at_utc_days

# What waits and what is promised is little, and is gathered before it is laid beside what is asked: a planner that
# takes a subtree for one row would else walk the ledger for each tenant.
# A lease that is being stopped promises nothing more; it costs what the ledger says until it is free, and none costs
# more than its window: the ledger closes it there, however late its agent is heard.
SUMS = """
WITH asked AS (
    SELECT * FROM unnest(
        %(positions)s::int[], %(paths)s::text[], %(since)s::timestamptz[], %(until)s::timestamptz[],
        %(first)s::date[], %(last)s::date[]
    ) AS a (position, path, since, until, first, last)
), edges AS (
    SELECT * FROM unnest(
        %(edge_positions)s::int[], %(edge_days)s::date[], %(edge_since)s::timestamptz[], %(edge_until)s::timestamptz[]
    ) AS e (position, day, since, until)
), below AS (
    SELECT a.*, t.id AS tenant_id FROM asked a JOIN tenants_tenant t ON t.path LIKE a.path || '%%'
), waiting AS MATERIALIZED (
    SELECT e.lease_id, e.kind, e.at, e.weight, e.seconds, t.path
    FROM ledger_unsummedentry w
    JOIN ledger_ledgerentry e ON e.id = w.entry_id
    JOIN tenants_tenant t ON t.id = e.tenant_id
), promised AS MATERIALIZED (
    SELECT l.during, r.weight, t.path
    FROM reservations_lease l
    JOIN reservations_reservation r ON r.id = l.reservation_id
    JOIN tenants_tenant t ON t.id = r.tenant_id
    WHERE l.state IN ('planned', 'starting', 'active') AND r.id IS DISTINCT FROM %(instead_of)s
        AND l.during && tstzrange(%(earliest)s, %(latest)s)
), standing AS (
    SELECT coalesce(max(id), 0) AS first_batch FROM ledger_sumbatch WHERE rebuilt
), amounts AS (
    SELECT b.position, 'spent' AS what, sum(whole.amount) AS amount
    FROM below b CROSS JOIN LATERAL (
        SELECT sum(d.slice_seconds) AS amount FROM ledger_dailysum d
        WHERE d.tenant_id = b.tenant_id AND d.day >= b.first AND d.day < b.last
            AND d.batch_id >= (SELECT first_batch FROM standing)
    ) AS whole
    GROUP BY b.position
    UNION ALL
    SELECT e.position, 'spent', sum(CASE
        WHEN c.kind = 'closed' THEN o.weight * greatest(0,
            floor(extract(epoch FROM least(c.at, e.until))) - floor(extract(epoch FROM greatest(o.at, e.since))))
        WHEN c.at >= e.since AND c.at < e.until THEN c.weight * c.seconds
        ELSE 0 END)
    FROM edges e
    JOIN below b ON b.position = e.position
    JOIN ledger_dailysum d ON d.tenant_id = b.tenant_id AND d.day = e.day
    CROSS JOIN LATERAL unnest(d.entries) AS one (entry_id)
    JOIN ledger_ledgerentry c ON c.id = one.entry_id
    LEFT JOIN ledger_ledgerentry o ON o.lease_id = c.lease_id AND o.kind = 'opened'
    WHERE d.batch_id >= (SELECT first_batch FROM standing)
    GROUP BY e.position
    UNION ALL
    SELECT a.position, 'spent', sum(o.weight * greatest(0,
        floor(extract(epoch FROM least(coalesce(c.at, least(%(now)s, upper(l.during))), a.until)))
        - floor(extract(epoch FROM greatest(o.at, a.since)))))
    FROM waiting o
    JOIN asked a ON o.path LIKE a.path || '%%' AND o.at < a.until
    LEFT JOIN ledger_ledgerentry c ON c.lease_id = o.lease_id AND c.kind = 'closed'
    LEFT JOIN reservations_lease l ON l.id = o.lease_id
    WHERE o.kind = 'opened'
    GROUP BY a.position
    UNION ALL
    SELECT a.position, 'spent', sum(c.weight * c.seconds)
    FROM waiting c
    JOIN asked a ON c.path LIKE a.path || '%%' AND c.at >= a.since AND c.at < a.until
    WHERE c.kind = 'corrected'
    GROUP BY a.position
    UNION ALL
    SELECT a.position, 'committed', sum(l.weight * greatest(0,
        floor(extract(epoch FROM least(upper(l.during), a.until)))
        - floor(extract(epoch FROM greatest(lower(l.during), a.since, %(now)s)))))
    FROM promised l
    JOIN asked a ON l.path LIKE a.path || '%%' AND l.during && tstzrange(a.since, a.until)
    GROUP BY a.position
)
SELECT position, what, coalesce(sum(amount), 0)::bigint FROM amounts GROUP BY position, what
"""


@dataclass(frozen=True)
class Asked:
    """The subtree at ``path`` over ``[since, until)``."""

    path: str
    since: dt.datetime
    until: dt.datetime


@dataclass(frozen=True)
class Spending:
    """Weighted slice-seconds: held so far, and still promised, in the time asked for."""

    spent: int
    committed: int


def sums_of(asked: Sequence[Asked], now: dt.datetime, instead_of: int | None = None) -> list[Spending]:
    """One answer for each that is asked; ``instead_of`` is a reservation whose own promise does not count."""
    if not asked:
        return []
    with connection.cursor() as cursor:
        cursor.execute(SUMS, query_parameters(asked, now, instead_of))
        sums = {(position, what): amount for position, what, amount in cursor.fetchall()}
    return [
        Spending(sums.get((position, "spent"), 0), sums.get((position, "committed"), 0))
        for position in range(len(asked))
    ]


def query_parameters(asked: Sequence[Asked], now: dt.datetime, instead_of: int | None = None) -> dict:
    cuts = [cut_at_utc_days(one.since, one.until) for one in asked]
    edges = [(position, edge) for position, cut in enumerate(cuts) for edge in cut.edges]
    return {
        "now": now,
        "instead_of": instead_of,
        "earliest": min(one.since for one in asked),
        "latest": max(one.until for one in asked),
        "positions": list(range(len(asked))),
        "paths": [one.path for one in asked],
        "since": [one.since for one in asked],
        "until": [one.until for one in asked],
        "first": [cut.first for cut in cuts],
        "last": [cut.last for cut in cuts],
        "edge_positions": [position for position, _edge in edges],
        "edge_days": [edge.date for _position, edge in edges],
        "edge_since": [edge.since for _position, edge in edges],
        "edge_until": [edge.until for _position, edge in edges],
    }
