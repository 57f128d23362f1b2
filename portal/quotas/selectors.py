"""Which quotas and budgets bind a tenant: its own and those of every tenant above it."""

from collections.abc import Collection

from django.db.models import Exists, OuterRef, QuerySet, prefetch_related_objects
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.models import Budget, OpenHours, Quota
from portal.tenants.models import Tenant


def quotas_binding(tenant: Tenant, pool: Pool, during: DateTimeTZRange | None = None) -> list[Quota]:
    """Quotas in this pool from the root down to the tenant, each tenant's in order of time.

    Those that are valid at some time of the window; without one all, whenever they hold. An empty list without a window
    means that the tenant has no access.
    """
    rows = Quota.objects.filter(pool=pool, tenant_id__in=tenant.ancestor_ids)
    return with_hours(rows.filter(valid__overlap=during) if during else rows)


def with_hours(rows: QuerySet[Quota], of: Collection[int] | None = None) -> list[Quota]:
    """Root first, each with its tenant, pool and open hours: a second query only where any has such hours.

    ``of`` are the tenants whose hours are wanted, where not those of all.
    """
    rows = rows.select_related("tenant", "pool").order_by("tenant__path", "valid")
    found: list[Quota] = list(rows.annotate(is_timed=Exists(OpenHours.objects.filter(quota=OuterRef("pk")))))
    timed = [row for row in found if row.is_timed]  # type: ignore[attr-defined]
    prefetch_related_objects([row for row in timed if of is None or row.tenant_id in of], "hours")
    return found


def budgets_binding(tenant: Tenant) -> list[Budget]:
    """Budgets from the root down to the tenant."""
    rows = Budget.objects.filter(tenant_id__in=tenant.ancestor_ids)
    return list(rows.select_related("tenant").order_by("tenant__path"))
