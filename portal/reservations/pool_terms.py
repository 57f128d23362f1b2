"""What binds who books in a pool, as a picture of it keeps that: its quotas, and every tenant's policy and budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.inventory.models import Pool
from portal.quotas.models import Budget, Policy, Quota
from portal.quotas.policies import EffectivePolicy, effective
from portal.quotas.selectors import with_hours
from portal.tenants.models import Tenant


@dataclass(frozen=True)
class Terms:
    """``quotas`` are all of the pool, root first, each tenant's in order of time. Rows are only read."""

    quotas: Sequence[Quota]
    policies: Sequence[Policy]
    budgets: Mapping[int, Budget]

    def quotas_binding(self, tenant: Tenant) -> list[Quota]:
        """Those from the root down to the tenant, whenever they hold; none means that it has no access."""
        above = set(tenant.ancestor_ids)
        return [row for row in self.quotas if row.tenant_id in above]

    def policy_of(self, tenant: Tenant) -> EffectivePolicy:
        return effective([tenant], self.policies)[tenant.pk]

    def budgets_binding(self, tenant: Tenant) -> list[Budget]:
        """From the root down to the tenant."""
        return [self.budgets[pk] for pk in tenant.ancestor_ids if pk in self.budgets]


def read_terms(pool: Pool) -> Terms:
    """Three queries, one more where quotas have hours."""
    return Terms(
        with_hours(Quota.objects.filter(pool=pool)),
        list(Policy.objects.select_related("tenant")),
        {row.tenant_id: row for row in Budget.objects.select_related("tenant").order_by("tenant__path")},
    )
