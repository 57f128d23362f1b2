"""Guarantees: who holds what is its own, and who borrows what is idle.

Each quota's own share is its guarantee less what it guarantees to the quotas directly below it (the root's guarantee is
its limit). A tenant without a quota shares that of the nearest tenant above. Own shares never add up to more than the
root's, so that every guarantee can be claimed at any moment, if need be by displacing who borrows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from psycopg2.extras import DateTimeTZRange

from portal.audit.services import record_change
from portal.inventory.models import Pool
from portal.quotas.models import Quota
from portal.quotas.tree import next_below
from portal.reservations.models import UNDER_WAY, Lease, Reservation, State
from portal.reservations.outlook import Holding, Outlook
from portal.reservations.peaks import highest_within
from portal.reservations.request import Request
from portal.reservations.selectors import leases_held
from portal.tenants.models import Tenant


@dataclass(frozen=True)
class Share:
    """What a quota keeps for its own people over one stretch of time; those ``below`` have shares of their own."""

    during: DateTimeTZRange
    weight: int
    path: str
    below: tuple[str, ...] = ()

    def includes(self, tenant_path: str) -> bool:
        return tenant_path.startswith(self.path) and not tenant_path.startswith(self.below)


def borrows(
    request: Request, during: DateTimeTZRange, held: Iterable[Holding], rows: Sequence[Quota] | None = None
) -> bool:
    """Whether at some moment of the window the request would hold more than its nearest quota's own share.

    ``held`` is everything of the pool in the window; what is borrowed takes nothing of the guarantee. ``rows`` are all
    quotas of the pool; without them they are read, in one query.
    """
    shares = shares_of(request.tenant, during, _rows(request.pool) if rows is None else rows)
    return _exceeds(shares, request.weight, [one for one in held if not one.borrowed])


def holdings(leases: QuerySet[Lease]) -> list[Holding]:
    """As quotas and shares count them."""
    rows = leases.values_list(
        "during", "reservation__weight", "reservation__tenant__path", "reservation__borrowed"
    )
    return [Holding(during.lower, during.upper, weight, path, borrowed) for during, weight, path, borrowed in rows]


def would_borrow(outlook: Outlook, pool: Pool, weight: int, during: DateTimeTZRange) -> bool:
    """As :func:`borrows`, for a request of the outlook's tenant in a pool of it. One query, none where the pool's
    shares were read with it."""
    here = outlook.pools[pool.pk]
    shares = shares_of(outlook.tenant, during, outlook.shared.get(pool.pk) or _rows(pool))
    return _exceeds(shares, weight, [one for one in here.holdings if not one.borrowed])


def shares_of(tenant: Tenant, during: DateTimeTZRange, rows: Sequence[Quota]) -> list[Share]:
    """The shares that count for the tenant, one after the other; ``rows`` are all quotas of a pool."""
    bounds = {bound for row in rows for bound in (row.valid.lower, row.valid.upper) if bound is not None}
    edges = [during.lower, *sorted(at for at in bounds if during.lower < at < during.upper), during.upper]
    stretches = (DateTimeTZRange(since, until, "[)") for since, until in zip(edges, edges[1:], strict=False))
    return [_share(tenant, stretch, rows) for stretch in stretches]


def _share(tenant: Tenant, stretch: DateTimeTZRange, rows: Sequence[Quota]) -> Share:
    """Within the stretch no row begins or ends. Below a tenant that has rows, but none then, nothing is promised."""
    valid = [row for row in rows if row.part_of(stretch) is not None]
    open_now = {row.tenant_id for row in valid}
    closed = tuple(row.tenant.path for row in rows if row.tenant_id not in open_now)
    here = [row for row in valid if not row.tenant.path.startswith(closed)]
    above = [row for row in here if tenant.path.startswith(row.tenant.path)]
    if not above:
        return Share(stretch, 0, tenant.path)
    nearest = max(above, key=lambda row: len(row.tenant.path))
    below = next_below(nearest, here)
    return Share(stretch, own_share(nearest, below), nearest.tenant.path, tuple(row.tenant.path for row in below))


def own_share(quota: Quota, below: Iterable[Quota]) -> int:
    """Weight that is guaranteed to the quota's own people: what it guarantees to ``below`` is left out."""
    promise = quota.limit if quota.tenant.parent_id is None else quota.guaranteed
    return max(0, promise - sum(row.guaranteed for row in below))


def promote_own(request: Request) -> None:
    """Let what the tenant borrows take what has become free of its guarantee, before a new request does."""
    if not is_bounded(request.during):
        return
    waiting = borrowers_in(request.pool, request.during, but=request.instead_of)
    if not waiting:
        return
    shares = shares_of(request.tenant, request.during, _rows(request.pool))
    promote([one for one in waiting if any(share.includes(one.tenant.path) for share in shares)])


def is_bounded(during: DateTimeTZRange) -> bool:
    return not during.isempty and None not in (during.lower, during.upper)


def borrowers_in(pool: Pool, during: DateTimeTZRange, but: Reservation | None = None) -> list[Reservation]:
    """What is borrowed and has a place in the window, the youngest first."""
    rows = Reservation.objects.filter(pool=pool, borrowed=True, during__overlap=during, state__in=UNDER_WAY)
    rows = rows.exclude(state=State.QUEUED, hold_expires_at__isnull=True)
    if but:
        rows = rows.exclude(pk=but.pk)
    return list(rows.select_related("tenant", "profile", "owner", "workload").order_by("-created_at", "-pk"))


def promote(borrowers: Sequence[Reservation]) -> set[int]:
    """Make guaranteed what its tenant's own share covers by now, the oldest first; returns the ids of those.

    All are of one pool. Call under its lock.
    """
    if not borrowers:
        return set()
    pool = borrowers[0].pool
    around = DateTimeTZRange(min(one.starts_at for one in borrowers), max(one.ends_at for one in borrowers), "[)")
    rows, held, promoted = _rows(pool), holdings(leases_held(pool, around).filter(reservation__borrowed=False)), set()
    for one in sorted(borrowers, key=lambda one: (one.created_at, one.pk)):
        weight = one.weight * one.ranks
        if _exceeds(shares_of(one.tenant, one.during, rows), weight, held):
            continue
        Reservation.objects.filter(pk=one.pk, borrowed=True).update(borrowed=False)
        record_change(
            actor=None, action="reservation.guaranteed", subject=one.number, tenant_id=one.tenant_id,
            before={"borrowed": True}, after={"borrowed": False})  # fmt: skip
        held.append(Holding(one.starts_at, one.ends_at, weight, one.tenant.path))
        promoted.add(one.pk)
    return promoted


def _rows(pool: Pool) -> list[Quota]:
    return list(Quota.objects.filter(pool=pool).select_related("tenant"))


def _exceeds(shares: Iterable[Share], weight: int, held: Iterable[Holding]) -> bool:
    held = list(held)
    return any(_peak(share, held) + weight > share.weight for share in shares)


def _peak(share: Share, held: Iterable[Holding]) -> int:
    """The most of the share that is taken at one moment of its stretch."""
    mine = ((one.since, one.until, one.weight) for one in held if share.includes(one.tenant_path))
    return highest_within(mine, share.during)
