"""Quotas, budgets and policies that the made-up year keeps to: set after what was held, so that no row breaks one."""

import datetime as dt
import zoneinfo
from collections import defaultdict
from collections.abc import Mapping, Sequence

from portal.demo.year_plan import Use
from portal.inventory.models import Pool
from portal.quotas.models import Budget, Period, Policy, Quota
from portal.quotas.periods import MONTHS
from portal.reservations.peaks import highest
from portal.tenants.models import Tenant

GUARANTEED_SHARE = 0.8  # of what stands above, split evenly
LIMIT_SHARE = 0.6
HEADROOM = 1.3
PERIODS = (Period.YEAR, Period.QUARTER, Period.MONTH)  # by level: everything, divisions, teams
DAY = 86400

Span = tuple[dt.datetime, dt.datetime, int]


def write_quotas(tenants: Sequence[Tenant], pools: Mapping[int, tuple[Pool, int]], uses: Sequence[Use]) -> list[bool]:
    """A quota of each division and team in each pool, ``pools`` being by id with their whole weight. Returns for each
    use whether it was borrowed: held above the guarantee of its team."""
    spans: dict[tuple[int, int], list[Span]] = defaultdict(list)
    paths = {tenant.pk: tenant.ancestor_ids for tenant in tenants}
    for use in uses:
        for tenant_id in paths[use.asker.tenant_id] if use.places else ():
            spans[tenant_id, use.pool_id].append((use.start, use.end, use.weight))
    rows: dict[tuple[int, int], Quota] = {}
    for tenant in tenants:
        for pool_id, (pool, weight) in pools.items():
            if tenant.depth <= 2:
                peak = highest(spans[tenant.pk, pool_id])
                rows[tenant.pk, pool_id] = _quota(tenant, pool, weight, peak, rows, tenants)
    Quota.objects.bulk_create(rows.values())
    return _borrowed(uses, paths, rows)


def _quota(tenant: Tenant, pool: Pool, weight: int, peak: int, rows: Mapping, tenants: Sequence[Tenant]) -> Quota:
    above = rows.get((tenant.parent_id, pool.pk))
    if above is None:
        return Quota(tenant=tenant, pool=pool, guaranteed=0, limit=max(weight, peak))
    siblings = sum(other.parent_id == tenant.parent_id for other in tenants)
    promise = above.guaranteed if above.tenant.parent_id else above.limit
    limit = min(above.limit, max(peak, int(LIMIT_SHARE * above.limit)))
    return Quota(
        tenant=tenant, pool=pool, limit=limit, guaranteed=min(limit, int(GUARANTEED_SHARE * promise / siblings))
    )


def _borrowed(uses: Sequence[Use], paths: Mapping[int, list[int]], rows: Mapping) -> list[bool]:
    held: dict[tuple[int, int], list[Span]] = defaultdict(list)
    found = [False] * len(uses)
    for number in sorted(range(len(uses)), key=lambda number: (uses[number].start, number)):
        use = uses[number]
        if not use.places or not (key := _team_key(paths[use.asker.tenant_id], use.pool_id, rows)):
            continue
        held[key] = [span for span in held[key] if span[1] > use.start]
        found[number] = sum(weight for _, _, weight in held[key]) + use.weight > rows[key].guaranteed
        held[key].append((use.start, use.end, use.weight))
    return found


def _team_key(path: list[int], pool_id: int, rows: Mapping) -> tuple[int, int] | None:
    """The tenant next above (or itself) that has a quota."""
    return next(((tenant_id, pool_id) for tenant_id in reversed(path) if (tenant_id, pool_id) in rows), None)


def write_budgets(tenants: Sequence[Tenant], uses: Sequence[Use]) -> None:
    """For a year at the root, a quarter in divisions, a month in teams: more than any such period has cost."""
    budgets = [
        Budget(tenant=tenant, period=PERIODS[tenant.depth], slice_seconds=0) for tenant in tenants if tenant.depth <= 2
    ]
    zones = {budget.tenant_id: zoneinfo.ZoneInfo(budget.tenant.time_zone) for budget in budgets}
    by_tenant = {budget.tenant_id: budget for budget in budgets}
    paths = {tenant.pk: tenant.ancestor_ids for tenant in tenants}
    spent: dict[tuple[int, int], int] = defaultdict(int)
    for use in uses:
        cost = use.weight * int((use.end - use.start).total_seconds()) if use.places else 0
        for tenant_id in paths[use.asker.tenant_id] if cost else ():
            if budget := by_tenant.get(tenant_id):
                for number in _periods_of(use, zones[tenant_id], MONTHS[Period(budget.period)]):
                    spent[tenant_id, number] += cost
    for budget in budgets:
        most = max((amount for (tenant_id, _), amount in spent.items() if tenant_id == budget.tenant_id), default=0)
        budget.slice_seconds = int(most * HEADROOM) // 3600 * 3600 + 3600
    Budget.objects.bulk_create(budgets)


def _periods_of(use: Use, zone: zoneinfo.ZoneInfo, months: int) -> set[int]:
    """Numbers of the periods that the window touches, each of which is given all of it: an upper bound."""
    local = (use.start.astimezone(zone), use.end.astimezone(zone))
    return {(at.year * 12 + at.month - 1) // months for at in local}


def write_policies(tenants: Sequence[Tenant]) -> None:
    """Tightened downwards: lengths at the root, approval in divisions, a protected run time in some teams."""
    divisions = [tenant for tenant in tenants if tenant.depth == 1]
    teams = [tenant for tenant in tenants if tenant.depth == 2]
    Policy.objects.bulk_create(
        [Policy(tenant=tenants[0], longest_window_seconds=7 * DAY, book_ahead_seconds=60 * DAY)]
        + [Policy(tenant=tenant, approval_above_slice_seconds=2000 * 3600) for tenant in divisions]
        + [Policy(tenant=tenant, protected_seconds=3600, most_weight_each=112) for tenant in teams[::2]]
    )
