"""Whose turn it is in a pool: what every tenant used lately, as it counts for fair shares, and the order of the queue.

Used is what the ledger says was held, decayed, and in full the rest of what is held now or begins within the freeze
horizon: a request that is served costs its tenant as much at once as it did while it waited.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.conf import settings
from django.db import connection
from django.db.models import Subquery, Sum
from django.db.models.functions import Coalesce

from portal.inventory.models import Pool
from portal.ledger.folding import whole_second
from portal.ledger.models import DailySum, SumBatch
from portal.quotas.models import Quota
from portal.reservations.models import BOUND, Lease, Reservation
from portal.tenants.models import Tenant
from scheduler.placement.fairness import Claim, Standing, decayed, in_fair_order

LOOKED_BACK = dt.timedelta(days=56)  # of use that long ago a 256th would count
NOON = dt.timedelta(hours=12)
# What no daily sum holds yet: weight, and from when to when it was held; a correction lies at one moment.
UNSUMMED = """
SELECT e.tenant_id, e.weight, e.kind, e.seconds, e.at, coalesce(c.at, least(%(now)s, upper(l.during)), %(now)s)
FROM ledger_unsummedentry w
JOIN ledger_ledgerentry e ON e.id = w.entry_id
LEFT JOIN ledger_ledgerentry c ON c.lease_id = e.lease_id AND c.kind = 'closed'
LEFT JOIN reservations_lease l ON l.id = e.lease_id
WHERE e.pool_id = %(pool)s AND w.kind <> 'closed' ORDER BY e.id
"""


def used_lately(pool: Pool, now: dt.datetime) -> dict[int, int]:
    """Weighted slice-seconds by tenant id: of its own people, not of the tenants below it. Three queries."""
    used: dict[int, float] = defaultdict(float)
    since = (now - LOOKED_BACK).date()
    rebuilt = SumBatch.objects.filter(rebuilt=True).order_by("-pk").values("pk")[:1]
    days = DailySum.objects.filter(pool=pool, day__gte=since, batch__gte=Coalesce(Subquery(rebuilt), 0)).values_list(
        "tenant_id", "day"
    )
    for tenant_id, day, amount in days.annotate(amount=Sum("slice_seconds")).order_by("tenant_id", "day"):
        noon = dt.datetime.combine(day, dt.time.min, tzinfo=dt.UTC) + NOON
        used[tenant_id] += decayed(amount, (now - noon).total_seconds())
    for tenant_id, amount, age in (*_unsummed(pool, now), *_promised(pool, now)):
        used[tenant_id] += decayed(amount, age)
    return {tenant_id: max(0, round(amount)) for tenant_id, amount in used.items()}


def _unsummed(pool: Pool, now: dt.datetime) -> list[tuple[int, int, float]]:
    """(tenant id, amount, age of its middle in seconds)."""
    found = []
    with connection.cursor() as cursor:
        cursor.execute(UNSUMMED, {"pool": pool.pk, "now": now})
        for tenant_id, weight, kind, seconds, at, until in cursor.fetchall():
            if kind == "corrected":
                found.append((tenant_id, weight * seconds, (now - at).total_seconds()))
            elif until > at:
                amount = weight * (whole_second(min(until, now)) - whole_second(at))
                found.append((tenant_id, amount, (now - at - (until - at) / 2).total_seconds()))
    return found


def _promised(pool: Pool, now: dt.datetime) -> list[tuple[int, int, float]]:
    """The rest of what is held, or is about to be."""
    rows = Lease.objects.filter(
        reservation__pool=pool, state__in=BOUND, during__startswith__lte=now + settings.FREEZE_HORIZON,
        during__endswith__gt=now)  # fmt: skip
    found = rows.order_by("pk").values_list("reservation__tenant_id", "reservation__weight", "during")
    return [
        (tenant_id, weight * (whole_second(during.upper) - whole_second(max(during.lower, now))), 0.0)
        for tenant_id, weight, during in found
    ]


def standings_in(pool: Pool, now: dt.datetime) -> list[tuple[Tenant, Standing]]:
    """Every tenant that has a quota in the pool now, or used it lately; parents before children."""
    used = used_lately(pool, now)
    promises = {
        row.tenant_id: row.limit if row.tenant.parent_id is None else row.guaranteed
        for row in Quota.objects.filter(pool=pool, valid__contains=now).select_related("tenant")
    }
    tenants = Tenant.objects.filter(pk__in={*used, *promises}).order_by("path")
    return [(one, Standing(one.path, used.get(one.pk, 0), promises.get(one.pk))) for one in tenants]


def in_turn(waiting: Iterable[Reservation], standings: Sequence[Standing]) -> list[Reservation]:
    """Queued reservations, with their waits and tenants at hand, in the order in which they are served."""
    rows = {one.pk: one for one in waiting}
    return [rows[key] for key in in_fair_order(map(claim_of, rows.values()), standings)]


def claim_of(reservation: Reservation) -> Claim:
    wait = reservation.wait
    return Claim(
        key=reservation.pk,
        path=reservation.tenant.path,
        cost=reservation.weight * reservation.ranks * wait.seconds,
        since=whole_second(wait.since),
        displaced=reservation.continues_id is not None,
        lapsed=wait.offers_lapsed,
    )
