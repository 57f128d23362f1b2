"""The rules that every request for slices obeys, in the order in which a refusal names them."""

import datetime as dt

from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.quotas.selectors import quotas_binding
from portal.reservations.errors import CountRefused, NoAccess, ProfileUnknown, WorkloadRefused
from portal.reservations.reasons import quota_exceeded
from portal.reservations.selectors import peak_weight_held
from portal.reservations.spending import check_budgets
from portal.reservations.windows import check_window
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may
from portal.workloads.drafts import DraftRefused, WorkloadDraft, check_draft

MOST_RANKS = 64


def check_request(
    owner: User,
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    workload: WorkloadDraft,
    now: dt.datetime,
) -> DateTimeTZRange:
    """The window as booked, or the refusal: access, window, shape, count, workload, quota, budget, in this order.

    True only under the pool's and the budgets' locks; without them it is what a preview says.
    """
    check_access(owner, tenant, pool)
    during = check_window(during, pool, now)
    check_shape(pool, profile, ranks)
    try:
        check_draft(workload)
    except DraftRefused as error:
        raise WorkloadRefused(str(error), field="workload") from error
    check_quotas(tenant, pool, profile, ranks, during)
    check_budgets(tenant, pool, profile.weight * ranks, during, now)
    return during


def check_access(owner: User, tenant: Tenant, pool: Pool) -> None:
    check_member(owner, tenant)
    if not quotas_binding(tenant, pool):
        raise NoAccess(_("%(tenant)s has no access to %(pool)s.") % {"tenant": tenant, "pool": pool}, field="pool")


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


def check_quotas(tenant: Tenant, pool: Pool, profile: Profile, ranks: int, during: DateTimeTZRange) -> None:
    """The peak over the whole window counts, for the tenant and for every tenant above it."""
    asked = profile.weight * ranks
    for quota in quotas_binding(tenant, pool):
        held = peak_weight_held(quota.tenant, pool, during)
        if held + asked > quota.limit:
            raise quota_exceeded(str(quota.tenant), quota.limit, held, asked)
