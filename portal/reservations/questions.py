"""Questions to the leads: what costs more than a tenant's threshold waits for their yes."""

import datetime as dt

from django.conf import settings
from django.db.models import QuerySet
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.quotas.policies import EffectivePolicy, policy_of
from portal.reservations.models import Approval
from portal.reservations.request import Request, price_of
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may, tenants_of

# A hold is never shorter, so that a lead has a chance to answer what is wanted at once.
SHORTEST_HOLD = dt.timedelta(hours=1)


def approval_needed(
    request: Request, during: DateTimeTZRange, now: dt.datetime, policy: EffectivePolicy | None = None
) -> Approval | None:
    """A question to the leads when the price is above the tenant's threshold and no lead asks, stored; else None."""
    return ask_approval(request.created_by, request.tenant, price_of(request, during), during, now, policy)


def ask_approval(
    asker: User,
    tenant: Tenant,
    price_slice_seconds: int,
    during: DateTimeTZRange,
    now: dt.datetime,
    policy: EffectivePolicy | None = None,
) -> Approval | None:
    """``during`` is the first window that hangs on the answer: the question never outlives it. ``policy`` is the
    tenant's, where it is known already."""
    threshold = above_threshold(asker, tenant, policy or policy_of(tenant), price_slice_seconds)
    if threshold is None:
        return None
    return Approval.objects.create(
        tenant=tenant, asked_by=asker, asked_at=now, expires_at=held_until(during, now),
        price_slice_seconds=price_slice_seconds, threshold_slice_seconds=threshold)  # fmt: skip


def threshold_for(asker: User, tenant: Tenant, price_slice_seconds: int) -> int | None:
    """The threshold, in slice-seconds, above which this price needs a lead's yes; None when it needs none."""
    return above_threshold(asker, tenant, policy_of(tenant), price_slice_seconds)


def above_threshold(
    asker: User, tenant: Tenant, policy: EffectivePolicy, price_slice_seconds: int, *, leads: bool | None = None
) -> int | None:
    """As :func:`threshold_for`, with the tenant's policy known already, and perhaps whether the asker leads it."""
    threshold = policy.approval_above_slice_seconds
    if threshold is None or price_slice_seconds <= threshold:
        return None
    return None if (may(asker, tenant, Role.LEAD) if leads is None else leads) else threshold


def held_until(during: DateTimeTZRange, now: dt.datetime) -> dt.datetime:
    """Until when a question asked now is open and the place is held."""
    return min(now + settings.APPROVAL_EXPIRES_AFTER, max(during.lower, now + SHORTEST_HOLD), during.upper)


def approvals_for(lead: User) -> QuerySet[Approval]:
    """Every question that this person may answer, decided or not."""
    return Approval.objects.filter(tenant__in=tenants_of(lead, Role.LEAD))
