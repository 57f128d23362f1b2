"""The rules that every request for slices obeys, in the order in which a refusal names them.

Every path that gives a reservation a window comes through ``check_request``: create, change, recurring, the queue, an
offer, the API, on behalf of another.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.quotas.models import Budget, Quota
from portal.quotas.policies import EffectivePolicy
from portal.reservations.borrowing import borrows
from portal.reservations.errors import CountRefused, NoAccess, ProfileUnknown, QuotaExceeded, WorkloadRefused
from portal.reservations.group_asked import check_group
from portal.reservations.outlook import Holding, peak_below
from portal.reservations.policy_rules import check_coverage, check_policy, quotas_met, weight_held_by
from portal.reservations.pool_calendar import looking_at
from portal.reservations.reasons import quota_exceeded
from portal.reservations.request import Request
from portal.reservations.spending import check_budgets
from portal.reservations.windows import check_changed_window, check_window
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may
from portal.workloads.drafts import DraftRefused, check_draft

MOST_RANKS = 64


@dataclass(frozen=True)
class Allowed:
    """The window as booked, and whether it is held above the guarantee, to be displaced when that is claimed.

    ``crowded`` is the limit that others' borrowing has used up: what is guaranteed may displace them. ``seen`` is the
    version of the pool's picture by which it was judged.
    """

    during: DateTimeTZRange
    borrowed: bool
    quotas: list[Quota]
    crowded: QuotaExceeded | None = None
    policy: EffectivePolicy | None = None
    seen: int | None = None


def check_request(
    request: Request, now: dt.datetime, *, seen: int | None = None, budgets: Sequence[Budget] | None = None
) -> Allowed:
    """What is allowed, or the refusal: access, window, its coverage by quotas, shape, count, workload,
    policy, quota, budget, in this order.

    True only under the pool's and the budgets' locks; without them it is what a preview says. ``seen`` is the version
    of the pool's picture that the caller saw under the lock and has written nothing since; ``budgets`` are those that
    bind the tenant, if it has locked them since.
    """
    tenant, pool = request.tenant, request.pool
    with looking_at(pool, now, seen=seen) as picture:
        terms, fleet, seen = picture.terms, picture.fleet, picture.version
    quotas = terms.quotas_binding(tenant)
    check_access(request.owner, tenant, pool, quotas)
    during = checked_window(request, now)
    check_coverage(quotas, during)
    quotas = [quota for quota, _part in quotas_met(quotas, during)]
    check_shape(pool, request.profile, request.ranks)
    check_group(request, fleet)
    if request.workload is not None:
        try:
            check_draft(request.workload)
        except DraftRefused as error:
            raise WorkloadRefused(str(error), field="workload") from error
    policy = terms.policy_of(tenant)
    _check_policy(request, policy, during, now)
    with looking_at(pool, now, seen=seen) as picture:
        held, seen = picture.held_in(during, request.instead_of.pk if request.instead_of else None), picture.version
    borrowed = borrows(request, during, held, terms.quotas)
    crowded = quota_refusal(request, quotas, during, held)
    if crowded and borrowed:
        raise crowded
    check_budgets(tenant, request.weight, during, now, instead_of=request.instead_of,
                  budgets=terms.budgets_binding(tenant) if budgets is None else budgets)  # fmt: skip
    return Allowed(during, borrowed, quotas, crowded, policy, seen)


def _check_policy(request: Request, policy: EffectivePolicy, during: DateTimeTZRange, now: dt.datetime) -> None:
    check_policy(
        policy,
        pool=request.pool,
        profile=request.profile,
        weight=request.weight_of_owner,
        during=during,
        now=now,
        image=request.workload.image if request.workload else None,
        held_by_person=lambda tenant: weight_held_by(request.owner, tenant, during, instead_of=request.instead_of),
        has_started=request.has_started,
    )


def checked_window(request: Request, now: dt.datetime) -> DateTimeTZRange:
    """A start that stays may lie in the past; no other may."""
    if request.has_started:
        return check_changed_window(request.during, request.pool, now)
    return check_window(request.during, request.pool, now)


def check_access(owner: User, tenant: Tenant, pool: Pool, quotas: list[Quota]) -> None:
    check_member(owner, tenant)
    if not quotas:
        raise no_access(tenant, pool)


def no_access(tenant: Tenant, pool: Pool) -> NoAccess:
    return NoAccess(_("%(tenant)s has no access to %(pool)s.") % {"tenant": tenant, "pool": pool}, field="pool")


def check_member(owner: User, tenant: Tenant) -> None:
    if tenant.closed_at is not None:
        raise NoAccess(_("%(tenant)s is closed.") % {"tenant": tenant}, field="tenant")
    if not may(owner, tenant, Role.MEMBER):
        raise NoAccess(
            _("%(person)s is not a member of %(tenant)s.") % {"person": owner, "tenant": tenant}, field="tenant"
        )


def check_shape(pool: Pool, profile: Profile, ranks: int) -> None:
    if (profile.gpu_model, profile.mig) != (pool.gpu_model, pool.mig):
        raise ProfileUnknown(
            _("%(pool)s has no profile %(profile)s.") % {"pool": pool, "profile": profile.name}, field="profile"
        )
    if not 1 <= ranks <= MOST_RANKS:
        raise CountRefused(_("The count is 1 to %(most)d.") % {"most": MOST_RANKS}, {"most": MOST_RANKS}, field="ranks")


def quota_refusal(
    request: Request, quotas: list[Quota], during: DateTimeTZRange, held: Sequence[Holding]
) -> QuotaExceeded | None:
    """The peak over the part of the window counts in which the quota is valid, for the tenant and for all above it."""
    for quota, part in quotas_met(quotas, during):
        peak = peak_below(quota.tenant.path, part, held)
        if peak + request.weight > quota.limit:
            return quota_exceeded(str(quota.tenant), quota.limit, peak, request.weight)
    return None
