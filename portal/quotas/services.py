"""Changing quotas and budgets. A lead of the parent decides about a child, a platform admin about the root.

Nothing that is held is ever ended by a change here: a limit below current use only refuses what comes next.
"""

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.events import tell_everybody_on_commit
from portal.inventory.models import Pool
from portal.quotas.errors import NotAllowed, QuotaRefused
from portal.quotas.models import Budget, Period, Quota
from portal.quotas.tree import check_tree
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may

MOST_WEIGHT = 1_000_000
MOST_SLICE_SECONDS = 10**15


def may_set_limits(actor: User, tenant: Tenant) -> bool:
    """Whether ``actor`` decides what ``tenant`` may hold and spend: a lead of its parent, an admin of the root."""
    if tenant.parent is None:
        return may(actor, tenant, Role.ADMIN)
    return may(actor, tenant.parent, Role.LEAD)


@transaction.atomic
def set_quota(*, actor: User, tenant: Tenant, pool: Pool, guaranteed: int, limit: int) -> Quota:
    """Set what the tenant's subtree may hold in the pool at one moment, in weights; raises :class:`QuotaRefused`.

    Locks the pool, which every booking in it does too. ``guaranteed`` is part of what the tenant above is guaranteed.
    """
    _check_actor(actor, tenant)
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    _check_number(guaranteed, MOST_WEIGHT, "guaranteed")
    _check_number(limit, MOST_WEIGHT, "limit")
    if guaranteed > limit:
        numbers: dict[str, int | str] = {"guaranteed": guaranteed, "limit": limit}
        sentence = _("The guarantee of %(guaranteed)d is above the limit of %(limit)d.")
        raise QuotaRefused(sentence % numbers, numbers, "guaranteed")
    check_tree(tenant, pool, guaranteed, limit)
    old = Quota.objects.filter(tenant=tenant, pool=pool).first()
    quota, _made = Quota.objects.update_or_create(
        tenant=tenant, pool=pool, defaults={"guaranteed": guaranteed, "limit": limit}
    )
    before = {"guaranteed": old.guaranteed, "limit": old.limit} if old else {}
    record_change(
        actor=actor, action="quota.set", subject=f"quota of {tenant} in {pool}", tenant_id=tenant.pk,
        before=before, after={"guaranteed": guaranteed, "limit": limit})  # fmt: skip
    tell_everybody_on_commit("quota.changed", tenant=tenant.pk)
    return quota


@transaction.atomic
def set_budget(*, actor: User, tenant: Tenant, period: str, slice_seconds: int | None) -> Budget | None:
    """Set what the tenant's subtree may spend in each period, in weighted slice-seconds; None takes its budget away.

    Locks the budget's row, as every booking below it does. Raises :class:`QuotaRefused`.
    """
    _check_actor(actor, tenant)
    if period not in Period.values:
        raise QuotaRefused(_("A budget is for a month, a quarter or a year."), field="period")
    if slice_seconds is not None:
        _check_number(slice_seconds, MOST_SLICE_SECONDS, "slice_seconds")
    old = Budget.objects.select_for_update(no_key=True).filter(tenant=tenant).first()
    before = {"period": old.period, "slice_seconds": old.slice_seconds} if old else {}
    if slice_seconds is None:
        Budget.objects.filter(tenant=tenant).delete()
        budget, after = None, {}
    else:
        after = {"period": period, "slice_seconds": slice_seconds}
        budget, _made = Budget.objects.update_or_create(tenant=tenant, defaults=after)
    record_change(
        actor=actor, action="budget.set", subject=f"budget of {tenant}", tenant_id=tenant.pk, before=before, after=after
    )
    tell_everybody_on_commit("quota.changed", tenant=tenant.pk)
    return budget


def _check_actor(actor: User, tenant: Tenant) -> None:
    if not may_set_limits(actor, tenant):
        above = tenant.parent or tenant
        raise NotAllowed(
            _("Only a lead of %(above)s may set the limits of %(tenant)s.") % {"above": above, "tenant": tenant}
            if tenant.parent
            else _("Only an admin of %(tenant)s may set its limits.") % {"tenant": tenant}
        )


def _check_number(value: int, most: int, field: str) -> None:
    if not 0 <= value <= most:
        raise QuotaRefused(_("Use a whole number from 0 to %(most)d.") % {"most": most}, {"most": most}, field)
