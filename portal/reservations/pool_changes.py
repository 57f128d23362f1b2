"""What of a pool has changed since it was last read, in one query, whoever changed it and in whatever order it was
committed.

Every changed lease carries the id of its transaction, and what else a picture holds leaves a mark with one. A reader
remembers the oldest transaction that was under way when it read; what it could not see then bears that id or a later
one. Rows that the reader's own transaction has changed may still be taken back: they are read anew each time until
they are settled.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db import connection

from portal.reservations.models import LIVE, ChangeMark


class LeaseRow(NamedTuple):
    """A lease as a picture needs it; times are aware, ``movable`` says that no node and no pin stands against it,
    and that it is not one of a group: alone it would go away from the others."""

    key: int
    reservation_id: int
    gpu_id: int
    start: int
    end: int
    since: Any
    until: Any
    state: str
    movable: bool
    end_reason: str
    shape: str
    weight: int
    borrowed: bool
    tenant_path: str
    pool_id: int
    changed_in: int

    @property
    def is_live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True)
class Changes:
    """``since`` is what to ask from next time. ``marks`` are kinds of other changes, ``own_marks`` those of them, and
    ``own_keys`` those leases, that the reader's own transaction has made and may take back. ``read`` are the ids of
    marks that need not be told again: one old transaction anywhere in the cluster holds ``since`` back for all."""

    since: int
    leases: tuple[LeaseRow, ...]
    marks: frozenset[str]
    own_marks: frozenset[str]
    own_keys: frozenset[int]
    read: frozenset[int]


_NOW = """
SELECT pg_snapshot_xmin(s)::text::bigint AS since,
    coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0) AS own
FROM pg_current_snapshot() AS s
"""
# No live stamp is higher; one that is comes from another cluster, by a restored dump, and says nothing here.
_LATEST = """greatest(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0))"""
_COLUMNS = """
SELECT l.id, l.reservation_id, l.gpu_id, lower(l.span) AS first, upper(l.span) AS last,
    lower(l.during) AS since, upper(l.during) AS until, l.state,
    l.state = 'planned' AND l.frozen_at IS NULL AND r.pinned_node_id IS NULL
        AND (r.ranks = 1 OR p.mig OR r.together IS FALSE) AS movable,
    l.end_reason, p.name, r.weight, r.borrowed, t.path, r.pool_id, l.changed_in
FROM reservations_lease l
JOIN reservations_reservation r ON r.id = l.reservation_id
JOIN inventory_gpu g ON g.id = l.gpu_id
JOIN inventory_profile p ON p.id = r.profile_id
JOIN tenants_tenant t ON t.id = r.tenant_id
WHERE (g.pool_id = %(pool)s OR r.pool_id = %(pool)s)
"""


def _marks_since(since: str) -> str:
    """Kinds that were not read yet, own kinds, and the ids of all that others have made."""
    return f"""
    SELECT array_agg(what) FILTER (WHERE id <> ALL(%(read)s::bigint[])),
        array_agg(what) FILTER (WHERE changed_in = (SELECT own FROM now)),
        array_agg(id) FILTER (WHERE changed_in <> (SELECT own FROM now))
    FROM reservations_changemark WHERE changed_in BETWEEN {since} AND {_LATEST}
"""


_SINCE = f"""
WITH now AS MATERIALIZED ({_NOW}), changed AS MATERIALIZED (
    SELECT id FROM reservations_lease WHERE changed_in BETWEEN %(since)s AND {_LATEST}
    UNION
    SELECT l.id FROM reservations_reservation r JOIN reservations_lease l ON l.reservation_id = r.id
    WHERE r.changed_in > 0 AND r.changed_in BETWEEN %(since)s AND {_LATEST}
    UNION
    SELECT unnest(%(unsettled)s::bigint[])
)
SELECT now.since, now.own, marks.*, leases.*
FROM now CROSS JOIN ({_marks_since("%(since)s")}) AS marks
LEFT JOIN ({_COLUMNS} AND l.id IN (SELECT id FROM changed)) AS leases ON true
"""
_WHOLE = f"""
WITH now AS MATERIALIZED ({_NOW})
SELECT now.since, now.own, marks.*, leases.*
FROM now CROSS JOIN ({_marks_since("(SELECT since FROM now)")}) AS marks
LEFT JOIN ({_COLUMNS} AND l.state = ANY(%(live)s)) AS leases ON true
"""


def read_changes(pool_id: int, since: int, unsettled: Collection[int], read: Collection[int]) -> Changes:
    """Leases of the pool that changed in transaction ``since`` or a later one, over or not, and the ``unsettled``;
    marks from then on but those that were ``read``."""
    return _read(_SINCE, {"pool": pool_id, "since": since, "unsettled": list(unsettled), "read": list(read)})


def read_whole(pool_id: int) -> Changes:
    """Every live lease of the pool: of its reservations, and on its GPUs."""
    every = frozenset(ChangeMark.What.values)
    found = _read(_WHOLE, {"pool": pool_id, "live": list(map(str, LIVE)), "read": []})
    return replace(found, marks=every)


def _read(sql: str, parameters: dict[str, Any]) -> Changes:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows = cursor.fetchall()
    since, own, marks, own_marks, read = rows[0][:5]
    leases = tuple(LeaseRow._make(row[5:]) for row in rows if row[5] is not None)
    own_keys = frozenset(lease.key for lease in leases if lease.changed_in == own) if own else frozenset()
    return Changes(
        since, leases, frozenset(marks or ()), frozenset(own_marks or ()), own_keys, frozenset(read or ()))
