"""How quotas of one pool fit into each other along the tree of tenants."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from portal.inventory.models import Pool
from portal.quotas.errors import QuotaRefused
from portal.quotas.models import Quota
from portal.tenants.models import Tenant


def check_tree(tenant: Tenant, pool: Pool, guaranteed: int, limit: int) -> None:
    """Refuse a quota that would promise more than the one above it has, or less than those below it were promised.

    A tenant without a row is transparent: what is below it counts at the nearest row above. The root's own promise is
    its whole limit, since nobody stands beside it. Call under the pool's lock.
    """
    rows = list(
        Quota.objects.filter(pool=pool).exclude(tenant=tenant).select_related("tenant").order_by("tenant__path")
    )
    wanted = Quota(tenant=tenant, pool=pool, guaranteed=guaranteed, limit=limit)
    above = [row for row in rows if tenant.path.startswith(row.tenant.path)]
    if tenant.parent_id is not None:
        if not above:
            raise QuotaRefused(
                _("%(parent)s has no quota in %(pool)s to give from. Set that first.")
                % {"parent": tenant.parent, "pool": pool}, field="limit")  # fmt: skip
        _check_below(above[-1], next_below(above[-1], [*rows, wanted]), changed=wanted)
    _check_below(wanted, next_below(wanted, rows), changed=wanted)


def next_below(quota: Quota, rows: Sequence[Quota]) -> list[Quota]:
    """The rows directly below: in the tenant's subtree with no other row in between."""
    below = [row for row in rows if row.tenant_id != quota.tenant_id and row.tenant.path.startswith(quota.tenant.path)]
    return [row for row in below if not any(_is_above(other, row) for other in below)]


def _is_above(one: Quota, other: Quota) -> bool:
    return one is not other and other.tenant.path.startswith(one.tenant.path)


def _check_below(upper: Quota, lower: list[Quota], changed: Quota) -> None:
    for row in lower:
        if row.limit > upper.limit:
            raise QuotaRefused(
                _("%(child)s may hold %(child_limit)d, more than the limit of %(limit)d of %(tenant)s.")
                % {"child": row.tenant, "child_limit": row.limit, "limit": upper.limit, "tenant": upper.tenant},
                {"limit": upper.limit, "child_limit": row.limit}, "limit")  # fmt: skip
    promise = upper.limit if upper.tenant.parent_id is None else upper.guaranteed
    total = sum(row.guaranteed for row in lower)
    if total > promise:
        raise QuotaRefused(
            _guarantees_sentence(upper, lower, total, promise, changed),
            {"total": total, "promise": promise}, "guaranteed")  # fmt: skip


def _guarantees_sentence(upper: Quota, lower: list[Quota], total: int, promise: int, changed: Quota) -> str:
    """Names what would help: the changed row, or else the largest guarantee, lowered by what is too much."""
    numbers = {"tenant": upper.tenant, "total": total, "promise": promise}
    able = [row for row in lower if row.guaranteed >= total - promise]
    helps = next((row for row in able if row is changed), max(able, key=lambda row: row.guaranteed, default=None))
    if helps is None:
        return (
            _(
                "Guarantees below %(tenant)s would add up to %(total)d of its %(promise)d. "
                "Lower them, or raise %(tenant)s."
            )
            % numbers
        )
    return _(
        "Guarantees below %(tenant)s would add up to %(total)d of its %(promise)d. "
        "Lower %(child)s to %(to)d, or raise %(tenant)s."
    ) % {**numbers, "child": helps.tenant, "to": helps.guaranteed - (total - promise)}
