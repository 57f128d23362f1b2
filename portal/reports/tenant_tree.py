"""The tree of tenants with what each holds, may hold and has spent, for one pool."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, Sum

from portal.inventory.models import Pool
from portal.quotas.models import Budget, Quota
from portal.quotas.periods import period_at
from portal.quotas.selectors import with_hours
from portal.quotas.tree import next_below
from portal.quotas.words import valid_words
from portal.reservations.context import Shell
from portal.reservations.models import COUNTED, Lease
from portal.reservations.selectors import ON_DEVICE
from portal.reservations.spending import BudgetStatus, statuses_of
from portal.tenants.models import Role, Tenant

BAR_PERCENT = 99.0  # the frame of a bar takes the rest
NEAR_PERCENT, HOUR = 80, 3600


@dataclass(frozen=True)
class TreeRow:
    """A tenant with everything below it. Weights, as quotas count.

    ``quotas`` are all its rows in this pool in order of time, ``quota`` is the one that is valid now, if any.
    ``ahead`` is the next one where none is.
    """

    tenant: Tenant
    level: int
    held: int
    quota: Quota | None
    quotas: tuple[Quota, ...]
    budget: BudgetStatus | None
    may_edit: bool
    ahead: Quota | None = None

    @property
    def ahead_words(self) -> str:
        return valid_words(self.ahead.valid) if self.ahead else ""

    @property
    def guaranteed(self) -> int | None:
        return self.quota.guaranteed if self.quota else None

    @property
    def limit(self) -> int | None:
        return self.quota.limit if self.quota else None

    @property
    def amount(self) -> int | None:
        """The budget in weighted slice-seconds."""
        return self.budget.amount if self.budget else None

    @property
    def borrowed(self) -> int:
        """Held beyond what is guaranteed; the root's guarantee is its limit, since nobody stands beside it."""
        if self.quota is None:
            return 0
        promise = self.quota.guaranteed if self.tenant.parent_id else self.quota.limit
        return max(0, self.held - promise)

    @property
    def own(self) -> int:
        return self.held - self.borrowed

    @property
    def spent_percent(self) -> int | None:
        if self.budget is None or not self.budget.amount:
            return None
        return round(100 * (self.budget.spent + self.budget.committed) / self.budget.amount)

    @property
    def hours_typed(self) -> str:
        """The budget as it is typed: slice-hours with a point, whatever the language."""
        return f"{self.budget.amount / HOUR:.2f}".removesuffix(".00") if self.budget else ""

    @property
    def near_budget(self) -> bool:
        return (self.spent_percent or 0) >= NEAR_PERCENT

    @property
    def guaranteed_x(self) -> str:
        return self._x(self.quota.guaranteed if self.quota else 0)

    @property
    def own_x(self) -> str:
        return self._x(self.own)

    @property
    def borrowed_width(self) -> str:
        return self._x(min(self.held, self.quota.limit) - self.own if self.quota else 0)

    def _x(self, weight: int) -> str:
        limit = self.quota.limit if self.quota else 0
        return f"{BAR_PERCENT * max(0, min(weight, limit)) / limit:.4g}%" if limit else "0%"


def may_set_limits(shell: Shell, tenant: Tenant) -> bool:
    """As ``quotas.services`` decides it, from what the shell has read already."""
    if tenant.parent_id is None:
        return shell.may(tenant, Role.ADMIN)
    above = next((other for other in shell.tenants if other.pk == tenant.parent_id), None)
    return above is not None and shell.may(above, Role.LEAD)


def with_limits(tenant_ids: Iterable[int]) -> list[Tenant]:
    """These tenants with their budgets and policies, in one query."""
    return list(Tenant.objects.filter(pk__in=set(tenant_ids)).select_related("budget", "policy"))


def tree_rows(
    shell: Shell, pool: Pool | None, now: dt.datetime, limits: Iterable[Tenant] | None = None
) -> list[TreeRow]:
    """Every tenant the reader may see, parents first; ``limits`` are those tenants as :func:`with_limits` gives them.

    Four queries, whatever their number.
    """
    tenants = [tenant for tenant in shell.tenants if not tenant.closed_at]
    ids = [tenant.pk for tenant in tenants]
    held = weights_held(pool, tenants, now) if pool else {}
    quotas = quotas_of(pool, ids)
    limited = with_limits(ids) if limits is None else [one for one in limits if one.pk in set(ids)]
    budgets: list[Budget] = [one.budget for one in limited if hasattr(one, "budget")]
    statuses = statuses_of([(budget, period_at(budget, now)) for budget in budgets], now, paced=True)
    spending = {status.tenant.pk: status for status in statuses}
    top = min((tenant.depth for tenant in tenants), default=0)
    valid = {pk: next((quota for quota in rows if valid_at(quota, now)), None) for pk, rows in quotas.items()}
    return [
        TreeRow(
            tenant=tenant,
            level=min(3, tenant.depth - top + 1),
            held=held.get(tenant.pk, 0),
            quota=valid.get(tenant.pk),
            quotas=tuple(quotas[tenant.pk]),
            ahead=None if valid.get(tenant.pk) else next_of(quotas[tenant.pk], now),
            budget=spending.get(tenant.pk),
            may_edit=may_set_limits(shell, tenant),
        )
        for tenant in tenants
    ]


def quotas_of(pool: Pool | None, tenant_ids: list[int]) -> dict[int, list[Quota]]:
    """Each tenant's rows in the pool with their hours, in order of time."""
    found: dict[int, list[Quota]] = defaultdict(list)
    for quota in with_hours(Quota.objects.filter(pool=pool, tenant_id__in=tenant_ids)) if pool else ():
        found[quota.tenant_id].append(quota)
    return found


def valid_at(quota: Quota, at: dt.datetime) -> bool:
    return (quota.valid.lower is None or quota.valid.lower <= at) and (
        quota.valid.upper is None or at < quota.valid.upper
    )


def next_of(quotas: Iterable[Quota], now: dt.datetime) -> Quota | None:
    return next((quota for quota in quotas if quota.valid.lower is not None and quota.valid.lower > now), None)


@dataclass(frozen=True)
class Split:
    """How the promise of the nearest quota above is given to those directly below it; ``left`` is not given yet."""

    above: Tenant
    promise: int
    given: int

    @property
    def left(self) -> int:
        return self.promise - self.given


def split_below(row: TreeRow, rows: Iterable[TreeRow]) -> Split | None:
    """What the tenant guarantees to its sub-teams now; None where it has no quota to give from."""
    if row.quota is None:
        return None
    below = [other.quota for other in rows if other.quota is not None]
    promise = row.quota.limit if row.tenant.parent_id is None else row.quota.guaranteed
    return Split(row.tenant, promise, sum(quota.guaranteed for quota in next_below(row.quota, below)))


def split_above(tenant: Tenant, rows: Iterable[TreeRow]) -> Split | None:
    """The split that the tenant's own guarantee is a part of, as far as the reader sees who is above it."""
    rows = list(rows)
    above = [row for row in rows if row.tenant != tenant and tenant.path.startswith(row.tenant.path) and row.quota]
    return split_below(above[-1], rows) if above else None


def weights_held(pool: Pool, tenants: Sequence[Tenant], now: dt.datetime) -> dict[int, int]:
    """The weight that each tenant's subtree holds in the pool at this moment."""
    now_held = Q(during__contains=now) | Q(state__in=ON_DEVICE)
    leases = Lease.objects.filter(COUNTED, now_held, reservation__pool=pool)
    leases = leases.filter(reservation__tenant_id__in=[tenant.pk for tenant in tenants])
    own = leases.values_list("reservation__tenant_id").annotate(weight=Sum(F("reservation__weight")))
    return rolled_up(dict(own.order_by()), tenants)


def rolled_up(own: dict[int, int], tenants: Iterable[Tenant]) -> dict[int, int]:
    """What is held in a tenant is held in every tenant above it."""
    held: dict[int, int] = defaultdict(int)
    for tenant in tenants:
        for above in tenant.ancestor_ids:
            held[above] += own.get(tenant.pk, 0)
    return held
