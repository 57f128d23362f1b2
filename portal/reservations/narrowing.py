"""Changing quotas and policies as people do it: who narrows one learns which future reservations it no longer covers,
and their owners are told. Nothing is ended; the one who narrowed decides."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.utils import timezone

from portal.accounts.models import User
from portal.inventory.models import Pool
from portal.notices.models import Kind
from portal.quotas.models import Policy, Quota
from portal.quotas.policy_changes import set_policy
from portal.quotas.services import check_actor, remove_quota, set_quota
from portal.reservations.telling import tell_owner
from portal.reservations.uncovered import Uncovered, uncovered_reservations
from portal.tenants.models import Tenant

Changed = TypeVar("Changed")


def change_quota(*, actor: User, tenant: Tenant, pool: Pool, **values: Any) -> tuple[Quota, list[Uncovered]]:
    """:func:`set_quota` and what it no longer covers. Locks the pool first."""
    return _narrow(actor, tenant, pool, lambda: set_quota(actor=actor, tenant=tenant, pool=pool, **values))


def drop_quota(*, actor: User, tenant: Tenant, pool: Pool, quota_id: int) -> list[Uncovered]:
    """:func:`remove_quota` and what is no longer covered. Locks the pool first."""
    return _narrow(
        actor, tenant, pool, lambda: remove_quota(actor=actor, tenant=tenant, pool=pool, quota_id=quota_id)
    )[1]


def change_policy(*, actor: User, tenant: Tenant, **fields: Any) -> tuple[Policy, list[Uncovered]]:
    """:func:`set_policy` and what it no longer covers. Locks all pools by id first."""
    return _narrow(actor, tenant, None, lambda: set_policy(actor=actor, tenant=tenant, **fields))


@transaction.atomic
def _narrow(
    actor: User, tenant: Tenant, pool: Pool | None, change: Callable[[], Changed]
) -> tuple[Changed, list[Uncovered]]:
    """What was uncovered before stays as it was: only what this change uncovers is told."""
    check_actor(actor, tenant)
    pools = Pool.objects.select_for_update(no_key=True).order_by("pk")
    list(pools.filter(pk=pool.pk) if pool else pools)
    now = timezone.now()
    before = uncovered_reservations(tenant, now, pool)
    changed = change()
    after = uncovered_reservations(tenant, now, pool)
    newly = [one for pk, one in after.items() if pk not in before]
    _tell_owners(newly, tenant)
    return changed, newly


def _tell_owners(newly: list[Uncovered], tenant: Tenant) -> None:
    for one in newly:
        row = one.reservation
        tell_owner(
            row, Kind.QUOTA_NARROWED, tenant=str(tenant), pool=str(row.pool), starts_at=row.during.lower,
            ends_at=row.during.upper)  # fmt: skip
