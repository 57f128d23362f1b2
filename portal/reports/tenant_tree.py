"""The tree of tenants with what each holds, may hold and has spent, for one pool."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, Sum

from portal.inventory.models import Pool
from portal.quotas.models import Budget, Quota
from portal.quotas.periods import period_at
from portal.reservations.context import Shell
from portal.reservations.models import LIVE, Lease
from portal.reservations.selectors import ON_DEVICE
from portal.reservations.spending import BudgetStatus, statuses_of
from portal.tenants.models import Role, Tenant

BAR_PERCENT = 99.0  # the frame of a bar takes the rest
NEAR_PERCENT, HOUR = 80, 3600


@dataclass(frozen=True)
class TreeRow:
    """A tenant with everything below it. Weights, as quotas count; ``quota`` None is no row of its own in this pool."""

    tenant: Tenant
    level: int
    held: int
    quota: Quota | None
    budget: BudgetStatus | None
    may_edit: bool

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
        """Held beyond what is guaranteed."""
        return max(0, self.held - self.quota.guaranteed) if self.quota else 0

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


def tree_rows(shell: Shell, pool: Pool | None, now: dt.datetime) -> list[TreeRow]:
    """Every tenant the reader may see, parents first. Four queries, whatever their number."""
    tenants = [tenant for tenant in shell.tenants if not tenant.closed_at]
    ids = [tenant.pk for tenant in tenants]
    held = weights_held(pool, tenants, now) if pool else {}
    quotas = {quota.tenant_id: quota for quota in Quota.objects.filter(pool=pool, tenant_id__in=ids)} if pool else {}
    budgets = Budget.objects.filter(tenant_id__in=ids).select_related("tenant")
    statuses = statuses_of([(budget, period_at(budget, now)) for budget in budgets], now)
    spending = {status.tenant.pk: status for status in statuses}
    top = min((tenant.depth for tenant in tenants), default=0)
    return [
        TreeRow(
            tenant=tenant,
            level=min(3, tenant.depth - top + 1),
            held=held.get(tenant.pk, 0),
            quota=quotas.get(tenant.pk),
            budget=spending.get(tenant.pk),
            may_edit=may_set_limits(shell, tenant),
        )
        for tenant in tenants
    ]


def weights_held(pool: Pool, tenants: Sequence[Tenant], now: dt.datetime) -> dict[int, int]:
    """The weight that each tenant's subtree holds in the pool at this moment."""
    now_held = Q(during__contains=now) | Q(state__in=ON_DEVICE)
    leases = Lease.objects.filter(now_held, state__in=LIVE, reservation__pool=pool)
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
