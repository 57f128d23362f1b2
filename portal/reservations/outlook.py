"""Everything that decides whether a tenant could book, read once: any number of what-ifs then costs no query.

It is a look without locks: what it finds free may be gone a moment later, and booking decides anew under its locks.
"""

import datetime as dt
import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, Pool, Profile
from portal.quotas.models import Budget, Quota
from portal.quotas.periods import periods_met
from portal.quotas.policies import EffectivePolicy, policy_and_budgets
from portal.quotas.selectors import with_hours
from portal.reservations.closures import closures
from portal.reservations.models import COUNTED, LIVE, MOVED, Lease, Reservation
from portal.reservations.peaks import highest_within
from portal.reservations.policy_rules import quotas_met
from portal.reservations.selectors import NEIGHBOURS, ON_DEVICE, bookable_gpus, held_as, profiles_of, shape_of, view_of
from portal.reservations.spending import BudgetStatus, statuses_of
from portal.tenants.models import Tenant
from scheduler.placement.geometry import GpuView, Held, Shape

WEEK = dt.timedelta(days=7)
USUAL = 0  # for the id of a pool: the one that is offered first


@dataclass(frozen=True)
class Holding:
    """A live lease as quotas count it."""

    since: dt.datetime
    until: dt.datetime
    weight: int
    tenant_path: str
    borrowed: bool = False


@dataclass(frozen=True)
class QuotaUse:
    """A quota with the most weight that its tenant's subtree holds at one moment of a window while it is valid."""

    quota: Quota
    held: int

    @property
    def left(self) -> int:
        return self.quota.limit - self.held


@dataclass(frozen=True)
class PoolOutlook:
    """One pool that the tenant has access to, between the outlook's two times; its quotas whenever they are valid."""

    pool: Pool
    quotas: tuple[Quota, ...]
    profiles: tuple[Profile, ...]
    gpus: dict[int, Gpu]
    views: tuple[GpuView, ...]
    holdings: tuple[Holding, ...]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(map(shape_of, self.profiles))

    @property
    def unmeasured(self) -> bool:
        """A GPU here does not tell how busy what is leased of it is."""
        return any(gpu.measured is False for gpu in self.gpus.values())

    def quota_uses(self, during: DateTimeTZRange) -> list[QuotaUse]:
        """Root first; the window must lie within the outlook."""
        return [
            QuotaUse(quota, peak_below(quota.tenant.path, part, self.holdings))
            for quota, part in quotas_met(self.quotas, during)
        ]


def peak_below(path: str, during: DateTimeTZRange, holdings: Iterable[Holding]) -> int:
    """The most weight that a subtree holds at one moment of the window."""
    below = ((one.since, one.until, one.weight) for one in holdings if one.tenant_path.startswith(path))
    return highest_within(below, during)


@dataclass(frozen=True)
class Outlook:
    """What ``tenant`` may count on in ``[since, until)``. Pools that it has no access to are not in ``pools``.

    ``own`` is what the person holds in all pools, where a policy limits that; None when nobody was named. ``shared``
    are the quotas of every tenant, by pool, where they were asked for.
    """

    tenant: Tenant
    now: dt.datetime
    since: dt.datetime
    until: dt.datetime
    pools: dict[int, PoolOutlook]
    budgets: tuple[BudgetStatus, ...]
    policy: EffectivePolicy
    own: tuple[Holding, ...] | None
    shared: dict[int, tuple[Quota, ...]] = field(default_factory=dict)

    def covers(self, during: DateTimeTZRange) -> bool:
        """Whether everything that bears on the window was read."""
        return self.since <= during.lower and during.upper <= self.until


@dataclass(frozen=True)
class Known:
    """Rows of a tenant that were read before: its quotas in the pools that are looked at, the profiles of these, and
    what binds it beside."""

    quotas: Sequence[Quota] | None = None
    profiles: Sequence[Profile] | None = None
    bound: tuple[EffectivePolicy, list[Budget]] | None = None


NOTHING = Known()


def outlook_around(
    tenant: Tenant,
    during: DateTimeTZRange,
    now: dt.datetime,
    *,
    pool: Pool | None = None,
    margin: dt.timedelta = WEEK,
    owner_id: int | None = None,
    whole: int | None = None,
    known: Known = NOTHING,
    instead_of: Reservation | None = None,
) -> Outlook:
    """The window with a margin on both sides, never before now; all pools of the tenant, or the one. Seven queries,
    and one more where a policy limits what the owner holds. ``whole`` is the id of a pool of which every tenant's
    quotas are wanted too, or ``USUAL``: what is borrowed there depends on them. What is
    ``known`` already is not read again; what ``instead_of`` holds and has promised is left out."""
    since, until = max(during.lower - margin, min(now, during.lower)), during.upper + margin
    rows = quotas_of(tenant, pool, whole) if known.quotas is None else known.quotas
    binding = [row for row in rows if row.tenant_id in tenant.ancestor_ids]
    around = DateTimeTZRange(since - NEIGHBOURS, until + NEIGHBOURS, "[)")
    pools = _pools(_by_pool(binding), known.profiles, around, now, instead_of)
    policy, budgets = known.bound or policy_and_budgets(tenant)
    asked = [(budget, period) for budget in budgets for period in periods_met(budget, since, until)]
    return Outlook(
        tenant, now, since, until, pools,
        tuple(statuses_of(asked, now, instead_of=instead_of, paced=True)),
        policy,
        _held_by(owner_id, policy, around, instead_of) if owner_id and policy.weight_rules else None,
        {} if whole is None else _shared(rows, whole or usual_pool_id(binding)),
    )  # fmt: skip


def _pools(
    quotas: dict[int, list[Quota]],
    profiles: Sequence[Profile] | None,
    around: DateTimeTZRange,
    now: dt.datetime,
    but: Reservation | None,
) -> dict[int, PoolOutlook]:
    pools = [rows[0].pool for rows in quotas.values()]
    profiles = _profiles(pools) if profiles is None else profiles
    gpus = _gpus(pools)
    held, holdings = _leases(pools, around, now, but)
    closed = closures(gpus, around)
    return {
        one.pk: PoolOutlook(
            one,
            tuple(quotas[one.pk]),
            tuple(profile for profile in profiles if (profile.gpu_model, profile.mig) == (one.gpu_model, one.mig)),
            {gpu.pk: gpu for gpu in gpus if gpu.pool_id == one.pk},
            tuple(view_of(gpu, [*held[gpu.pk], *closed[gpu.pk]]) for gpu in gpus if gpu.pool_id == one.pk),
            tuple(holdings[one.pk]),
        )
        for one in pools
    }


def quotas_of(tenant: Tenant, pool: Pool | None = None, whole: int | None = None) -> list[Quota]:
    """What binds the tenant, root first, in the one pool or in all; every tenant's in the pool that is ``whole``."""
    binding = Q(tenant_id__in=tenant.ancestor_ids)
    if whole is None:
        rows = Quota.objects.filter(binding)
    else:
        first = Quota.objects.filter(binding).order_by(_unmeasured(), "pool__name").values("pool")[:1]
        rows = Quota.objects.filter(binding | Q(pool=Subquery(first) if whole == USUAL else whole))
    rows = rows.filter(pool=pool) if pool else rows.annotate(unmeasured=_unmeasured())
    return with_hours(rows, of=tenant.ancestor_ids)


def _unmeasured() -> Exists:
    """Whether a GPU of the quota's pool does not tell how busy what is leased of it is."""
    return Exists(bookable_gpus(OuterRef("pool")).order_by().filter(measured=False))


def _shared(rows: Iterable[Quota], pool_id: int) -> dict[int, tuple[Quota, ...]]:
    return {pool_id: tuple(row for row in rows if row.pool_id == pool_id)}


def usual_pool_id(quotas: Iterable[Quota]) -> int:
    """Of rows as :func:`quotas_of` reads them: the first pool by name that measures use, else the first; 0 for none."""
    found: Any = min(quotas, key=lambda row: (row.unmeasured, row.pool.name), default=None)  # type: ignore[attr-defined]
    return found.pool_id if found else 0


def _by_pool(rows: Iterable[Quota]) -> dict[int, list[Quota]]:
    found: dict[int, list[Quota]] = defaultdict(list)
    for row in rows:
        found[row.pool_id].append(row)
    return dict(sorted(found.items()))


def _held_by(
    owner_id: int, policy: EffectivePolicy, around: DateTimeTZRange, but: Reservation | None
) -> tuple[Holding, ...]:
    """Below the highest tenant whose policy counts what one person holds."""
    highest = policy.weight_rules[0][0].path
    rows = Lease.objects.filter(
        COUNTED, reservation__owner=owner_id, reservation__tenant__path__startswith=highest,
        during__overlap=around,
    )  # fmt: skip
    held = _without(rows, but).values_list("during", "reservation__weight", "reservation__tenant__path")
    return tuple(Holding(during.lower, during.upper, weight, path) for during, weight, path in held)


def _without(leases: QuerySet[Lease], reservation: Reservation | None) -> QuerySet[Lease]:
    return leases.exclude(reservation=reservation) if reservation else leases


def _profiles(pools: Sequence[Pool]) -> list[Profile]:
    known = [profiles_of(pool) for pool in pools if pool.gpu_model]
    return list(functools.reduce(operator.or_, known)) if known else []


def _gpus(pools: Sequence[Pool]) -> list[Gpu]:
    if not pools:
        return []
    return list(functools.reduce(operator.or_, map(bookable_gpus, pools)).select_related("node"))


def _leases(
    pools: Iterable[Pool], around: DateTimeTZRange, now: dt.datetime, but: Reservation | None
) -> tuple[dict[int, list[Held]], dict[int, list[Holding]]]:
    """Live leases as placement sees them, by GPU, and as quotas count them, by pool."""
    overdue = Q(during__endswith__lte=now, state__in=ON_DEVICE)
    here = Q(gpu__pool__in=pools) | Q(reservation__pool__in=pools)
    live = Lease.objects.filter(here, Q(during__overlap=around) | overdue, state__in=LIVE)
    rows = _without(live, but).values_list(
        "gpu_id", "span", "during", "state", "reservation__profile__name",
        "reservation__pool_id", "reservation__weight", "reservation__tenant__path", "reservation__borrowed",
        "end_reason",
    )  # fmt: skip
    held: dict[int, list[Held]] = defaultdict(list)
    holdings: dict[int, list[Holding]] = defaultdict(list)
    for gpu_id, span, during, state, shape, pool_id, weight, path, borrowed, end_reason in rows:
        held[gpu_id].append(held_as(span, during, state, shape, now))
        if end_reason != MOVED:
            holdings[pool_id].append(Holding(during.lower, during.upper, weight, path, borrowed))
    return held, holdings
