"""Changing quotas and budgets. A lead of the parent decides about a child, a platform admin about the root.

People come here through ``reservations.narrowing``, which says what is no longer covered. Nothing that is held is ever
ended by a change here: a limit below current use only refuses what comes next.
"""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.events import tell_everybody_on_commit
from portal.inventory.models import Pool
from portal.quotas.errors import NotAllowed, NotHeld, QuotaRefused
from portal.quotas.hours import Hours, hours_held, replace_hours
from portal.quotas.models import Budget, Period, Quota, always
from portal.quotas.tree import check_tree, check_without
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may

MOST_WEIGHT = 1_000_000
MOST_SLICE_SECONDS = 10**15
FIRST_YEAR, LAST_YEAR = 2000, 9000


def may_set_limits(actor: User, tenant: Tenant) -> bool:
    """Whether ``actor`` decides what ``tenant`` may hold and spend: a lead of its parent, an admin of the root."""
    if tenant.parent is None:
        return may(actor, tenant, Role.ADMIN)
    return may(actor, tenant.parent, Role.LEAD)


@transaction.atomic
def set_quota(
    *,
    actor: User,
    tenant: Tenant,
    pool: Pool,
    guaranteed: int,
    limit: int,
    valid: DateTimeTZRange | None = None,
    hours: Sequence[Hours] | None = None,
    quota: Quota | None = None,
) -> Quota:
    """Set what the tenant's subtree may hold in the pool at one moment, in weights; raises :class:`QuotaRefused`.

    ``quota`` is the row that is changed; without it the one of the same validity is, or a new one is made. ``valid``
    None is always; ``hours`` None leaves the open hours as they are. Locks the pool, which every booking in it does
    too. ``guaranteed`` is part of what the tenant above is guaranteed.
    """
    check_actor(actor, tenant)
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    _check_amounts(guaranteed, limit)
    valid = _checked_validity(valid)
    old = _row_to_change(tenant, pool, valid, quota)
    before = _shown(old) if old else {}
    wanted = Quota(
        pk=old.pk if old else None, tenant=tenant, pool=pool, guaranteed=guaranteed, limit=limit, valid=valid
    )
    check_tree(wanted)
    wanted.save()
    if hours is not None:
        replace_hours(wanted, hours)
    record_change(
        actor=actor, action="quota.set", subject=f"quota of {tenant} in {pool}", tenant_id=tenant.pk,
        before=before, after=_shown(wanted))  # fmt: skip
    tell_everybody_on_commit("quota.changed", tenant=tenant.pk)
    return wanted


@transaction.atomic
def remove_quota(*, actor: User, tenant: Tenant, pool: Pool, quota_id: int) -> None:
    """Take one row away; the tenant is then bound by what is above it, or by its rows of other times."""
    check_actor(actor, tenant)
    pool = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    quota = Quota.objects.filter(tenant=tenant, pool=pool, pk=quota_id).select_related("tenant", "pool").first()
    if quota is None:
        raise NotHeld(_("%(tenant)s has no such quota in %(pool)s.") % {"tenant": tenant, "pool": pool})
    check_without(quota)
    before = _shown(quota)
    quota.delete()
    record_change(
        actor=actor, action="quota.removed", subject=f"quota of {tenant} in {pool}", tenant_id=tenant.pk, before=before
    )
    tell_everybody_on_commit("quota.changed", tenant=tenant.pk)


def _row_to_change(tenant: Tenant, pool: Pool, valid: DateTimeTZRange, quota: Quota | None) -> Quota | None:
    rows = Quota.objects.filter(tenant=tenant, pool=pool)
    if quota is None:
        return rows.filter(valid=valid).first()
    found = rows.filter(pk=quota.pk).first()
    if found is None:
        raise NotHeld(_("%(tenant)s has no such quota in %(pool)s.") % {"tenant": tenant, "pool": pool})
    return found


def _checked_validity(valid: DateTimeTZRange | None) -> DateTimeTZRange:
    if valid is None:
        return always()
    if valid.isempty or (valid.lower is not None and valid.upper is not None and valid.upper <= valid.lower):
        raise QuotaRefused(_("The end must be after the start."), field="valid")
    if any(bound is not None and not FIRST_YEAR <= bound.year <= LAST_YEAR for bound in (valid.lower, valid.upper)):
        years: dict[str, int | str] = {"first": FIRST_YEAR, "last": LAST_YEAR}
        raise QuotaRefused(_("Dates lie between the years %(first)d and %(last)d.") % years, years, "valid")
    return DateTimeTZRange(valid.lower, valid.upper, "[)")


def _check_amounts(guaranteed: int, limit: int) -> None:
    check_number(guaranteed, MOST_WEIGHT, "guaranteed")
    check_number(limit, MOST_WEIGHT, "limit")
    if guaranteed > limit:
        numbers: dict[str, int | str] = {"guaranteed": guaranteed, "limit": limit}
        sentence = _("The guarantee of %(guaranteed)d is above the limit of %(limit)d.")
        raise QuotaRefused(sentence % numbers, numbers, "guaranteed")


def _shown(quota: Quota) -> dict[str, Any]:
    """As the audit keeps it: validity and hours only where they bound anything."""
    shown: dict[str, Any] = {"guaranteed": quota.guaranteed, "limit": quota.limit}
    for name, bound in (("valid_from", quota.valid.lower), ("valid_until", quota.valid.upper)):
        if bound is not None:
            shown[name] = bound.isoformat()
    hours = [list(one) for one in hours_held(quota)]
    return shown | ({"hours": hours} if hours else {})


@transaction.atomic
def set_budget(*, actor: User, tenant: Tenant, period: str, slice_seconds: int | None) -> Budget | None:
    """Set what the tenant's subtree may spend in each period, in weighted slice-seconds; None takes its budget away.

    Locks the budget's row, as every booking below it does. Raises :class:`QuotaRefused`.
    """
    check_actor(actor, tenant)
    if period not in Period.values:
        raise QuotaRefused(_("A budget is for a month, a quarter or a year."), field="period")
    if slice_seconds is not None:
        check_number(slice_seconds, MOST_SLICE_SECONDS, "slice_seconds")
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


def check_actor(actor: User, tenant: Tenant) -> None:
    if not may_set_limits(actor, tenant):
        above = tenant.parent or tenant
        raise NotAllowed(
            _("Only a lead of %(above)s may set the limits of %(tenant)s.") % {"above": above, "tenant": tenant}
            if tenant.parent
            else _("Only an admin of %(tenant)s may set its limits.") % {"tenant": tenant}
        )


def check_number(value: int, most: int, field: str) -> None:
    if not 0 <= value <= most:
        raise QuotaRefused(_("Use a whole number from 0 to %(most)d.") % {"most": most}, {"most": most}, field)
