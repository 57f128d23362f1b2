"""Guarantees: who holds what is its own, and who borrows what is idle.

Each quota's own share is its guarantee less what it guarantees to the quotas directly below it (the root's guarantee is
its limit). A tenant without a quota shares that of the nearest tenant above. Own shares never add up to more than the
root's, so that every guarantee can be claimed at any moment, if need be by displacing who borrows.
"""

from psycopg2.extras import DateTimeTZRange

from portal.quotas.models import Quota
from portal.quotas.tree import next_below
from portal.reservations.request import Request
from portal.reservations.selectors import leases_held, peak_of


def borrows(request: Request, quotas: list[Quota], during: DateTimeTZRange) -> bool:
    """Whether at some moment of the window the request would hold more than its nearest quota's own share.

    ``quotas`` are those that bind the tenant, root first. What is borrowed already takes nothing of the guarantee.
    """
    nearest = quotas[-1].tenant
    parts = [(quota, quota.part_of(during)) for quota in quotas if quota.tenant == nearest]
    return any(_exceeds_own_share(request, quota, part) for quota, part in parts if part is not None)


def _exceeds_own_share(request: Request, quota: Quota, during: DateTimeTZRange) -> bool:
    below = _rows_below(quota, during)
    own = own_share(quota, below)
    if request.weight > own:
        return True
    held = leases_held(request.pool, during, request.instead_of).filter(
        reservation__borrowed=False, reservation__tenant__path__startswith=quota.tenant.path
    )
    for row in below:
        held = held.exclude(reservation__tenant__path__startswith=row.tenant.path)
    return peak_of(held, during) + request.weight > own


def own_share(quota: Quota, below: list[Quota]) -> int:
    """Weight that is guaranteed to the quota's own people: what it guarantees to ``below`` is left out."""
    promise = quota.limit if quota.tenant.parent_id is None else quota.guaranteed
    return max(0, promise - sum(row.guaranteed for row in below))


def _rows_below(quota: Quota, during: DateTimeTZRange) -> list[Quota]:
    rows = Quota.objects.filter(
        pool=quota.pool, tenant__path__startswith=quota.tenant.path, valid__overlap=during
    ).exclude(tenant=quota.tenant)
    return next_below(quota, list(rows.select_related("tenant")))
