"""Which quotas and budgets bind a tenant: its own and those of every tenant above it."""

from portal.inventory.models import Pool
from portal.quotas.models import Budget, Quota
from portal.tenants.models import Tenant


def quotas_binding(tenant: Tenant, pool: Pool) -> list[Quota]:
    """Quotas in this pool from the root down to the tenant; an empty list means that it has no access."""
    rows = Quota.objects.filter(pool=pool, tenant_id__in=tenant.ancestor_ids)
    return list(rows.select_related("tenant", "pool").order_by("tenant__path"))


def budgets_binding(tenant: Tenant) -> list[Budget]:
    """Budgets from the root down to the tenant."""
    rows = Budget.objects.filter(tenant_id__in=tenant.ancestor_ids)
    return list(rows.select_related("tenant").order_by("tenant__path"))
