"""What is free when, and what a request would get: the answers of the reserve page and of the API.

Nothing here locks or writes; booking decides anew. Each function reads a fixed number of queries, none when it is given
an outlook that was read for the whole page.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.reservations.alternatives import HAS_WAYS_ON, Alternative, alternatives_in
from portal.reservations.errors import NoCapacity, QuotaExceeded, ReservationRefused, WindowRefused
from portal.reservations.outlook import WEEK, Outlook, QuotaUse, outlook_around
from portal.reservations.pool_calendar import looking_at
from portal.reservations.request import Request
from portal.reservations.rules import check_member, no_access
from portal.reservations.selectors import gpu_views, profiles_of, shape_of, window_of
from portal.reservations.spending import BudgetStatus
from portal.reservations.trying import claim_of
from portal.reservations.whatif import Place, places_for
from portal.reservations.windows import check_window
from portal.tenants.models import Tenant
from scheduler.placement.earliest import counts_at, earliest_start
from scheduler.placement.geometry import GpuView, Placement, free_count
from scheduler.placement.replan import Admission

__all__ = [
    "Alternative",
    "FreeCount",
    "Place",
    "Preview",
    "alternatives_for",
    "free_counts",
    "free_over_time",
    "outlook_around",
    "preview",
    "with_alternatives",
]

MOST_STEPS = 2000


@dataclass(frozen=True)
class FreeCount:
    """How many of a profile fit at once for the whole window; when one fits next if none does (None: not in a week)."""

    profile: Profile
    free: int
    next_free_at: dt.datetime | None


@dataclass(frozen=True)
class Preview:
    """What booking would answer. ``reason`` is None exactly when it fits; ``quota`` and ``budget`` are the tightest.
    ``displaces`` reservations that are borrowed give way for it."""

    placements: tuple[Place, ...]
    reason: ReservationRefused | None
    alternatives: tuple[Alternative, ...]
    price_slice_seconds: int
    budget: BudgetStatus | None
    quota: QuotaUse | None
    displaces: int = 0

    @property
    def fits(self) -> bool:
        return self.reason is None

    @property
    def held_peak(self) -> int:
        return self.quota.held if self.quota else 0

    @property
    def quota_guaranteed(self) -> int:
        return self.quota.quota.guaranteed if self.quota else 0

    @property
    def quota_limit(self) -> int:
        return self.quota.quota.limit if self.quota else 0


def preview(
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    *,
    owner: User | None = None,
    image: str | None = None,
    outlook: Outlook | None = None,
    now: dt.datetime | None = None,
    known_member: bool = False,
) -> Preview:
    """What booking this would answer now. ``owner``: whose right to book is checked too, unless it is known already by
    ``known_member``; ``image``: what would run.

    Without an outlook the window alone is read first, a week around it only when place, quota or budget is short.
    """
    now = now or (outlook.now if outlook else timezone.now())
    owner_id = owner.pk if owner else None
    near = outlook or outlook_around(
        tenant, _readable(during, pool, now), now, pool=pool, margin=dt.timedelta(0), owner_id=owner_id
    )
    try:
        places = _places(near, pool, profile, ranks, during, None if known_member else owner, image)
        return _preview(near, pool, profile, ranks, during, places, None)
    except ReservationRefused as error:
        refusal = error
    if isinstance(refusal, NoCapacity) and (places := _after_moves(near, pool, profile, ranks, during)):
        return _preview(near, pool, profile, ranks, during, places, None)
    if owner is not None and isinstance(refusal, NoCapacity | QuotaExceeded):
        claimed = claim_of(Request(owner, owner, tenant, pool, profile, ranks, during), now)
        if claimed is not None:
            places = _seen_places(near, pool, claimed.placements)
            return replace(_preview(near, pool, profile, ranks, during, places, None), displaces=len(claimed.victims))
    if isinstance(refusal, HAS_WAYS_ON):
        refusal = with_alternatives(
            refusal, tenant, pool, profile, ranks, during, owner=owner, outlook=outlook, now=now)  # fmt: skip
    return _preview(near, pool, profile, ranks, during, (), refusal)


def _after_moves(
    outlook: Outlook, pool: Pool, profile: Profile, ranks: int, during: DateTimeTZRange
) -> tuple[Place, ...]:
    """Where it would sit once what is planned has moved for it."""
    with looking_at(pool, outlook.now) as picture:
        admitted = picture.admit(shape_of(profile), ranks, window_of(during))
    return _seen_places(outlook, pool, admitted.placements) if isinstance(admitted, Admission) else ()


def _seen_places(outlook: Outlook, pool: Pool, placements: Sequence[Placement]) -> tuple[Place, ...]:
    gpus = outlook.pools[pool.pk].gpus
    return tuple(Place(gpus[one.gpu_id], one.start, one.end) for one in placements if one.gpu_id in gpus)


def alternatives_for(
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    refusal: ReservationRefused,
    *,
    owner: User | None = None,
    outlook: Outlook | None = None,
    now: dt.datetime | None = None,
) -> tuple[Alternative, ...]:
    """At most three requests that the same person could book now."""
    outlook = outlook or outlook_around(tenant, during, now or timezone.now(), owner_id=owner.pk if owner else None)
    return alternatives_in(outlook, pool, profile, ranks, during, refusal)


def with_alternatives(
    refusal: ReservationRefused,
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    *,
    owner: User | None = None,
    outlook: Outlook | None = None,
    now: dt.datetime | None = None,
) -> ReservationRefused:
    """The refusal with its ways on, and with the full reason where there was no place. Call after the rollback."""
    outlook = outlook or outlook_around(tenant, during, now or timezone.now(), owner_id=owner.pk if owner else None)
    if isinstance(refusal, NoCapacity):
        try:
            _places(outlook, pool, profile, ranks, during, None)
        except ReservationRefused as fuller:
            refusal = fuller
    refusal.alternatives = alternatives_in(outlook, pool, profile, ranks, during, refusal)
    return refusal


def free_counts(
    pool: Pool, during: DateTimeTZRange, *, outlook: Outlook | None = None, now: dt.datetime | None = None
) -> list[FreeCount]:
    """For each profile of the pool, smallest first, how many are free; whoever asks, whatever their quota."""
    profiles, views = _profiles_and_views(pool, during, outlook, now)
    window, counts = window_of(during), []
    for profile in profiles:
        shape = shape_of(profile)
        free = free_count(shape, views, window)
        moment = None
        if not free:
            last = window.start + int(WEEK.total_seconds())
            moment = earliest_start(shape, 1, views, window.seconds, window.start, last)
        counts.append(FreeCount(profile, free, dt.datetime.fromtimestamp(moment, dt.UTC) if moment else None))
    return counts


def free_over_time(
    pool: Pool,
    profile: Profile,
    since: dt.datetime,
    hours: int,
    step: dt.timedelta,
    *,
    outlook: Outlook | None = None,
    now: dt.datetime | None = None,
) -> list[tuple[dt.datetime, int]]:
    """(at, how many fit for the whole of [at, at + step)) for each step of the hours from ``since``; 2,000 at most."""
    length = int(step.total_seconds())
    if length < 1:
        raise ValueError("A step has at least a second.")
    first = int(since.timestamp())
    moments = range(first, first + min(hours * 3600, MOST_STEPS * length), length)
    during = DateTimeTZRange(since, since + dt.timedelta(hours=hours) + step, "[)")
    _profiles, views = _profiles_and_views(pool, during, outlook, now)
    counts = counts_at(shape_of(profile), views, length, moments)
    return [(dt.datetime.fromtimestamp(at, dt.UTC), count) for at, count in zip(moments, counts, strict=True)]


def _profiles_and_views(
    pool: Pool, during: DateTimeTZRange, outlook: Outlook | None, now: dt.datetime | None
) -> tuple[Sequence[Profile], Sequence[GpuView]]:
    if (
        outlook is not None
        and pool.pk in outlook.pools
        and outlook.since <= during.lower
        and during.upper <= outlook.until
    ):
        here = outlook.pools[pool.pk]
        return here.profiles, here.views
    around = DateTimeTZRange(during.lower, during.upper + WEEK, "[)")
    return list(profiles_of(pool)), gpu_views(pool, around, now or timezone.now())


def _readable(during: DateTimeTZRange, pool: Pool, now: dt.datetime) -> DateTimeTZRange:
    """The window, or a moment instead of one that is refused anyway: years of rows are never read for it."""
    try:
        return check_window(during, pool, now)
    except WindowRefused:
        return DateTimeTZRange(now, now + dt.timedelta(seconds=1), "[)")


def _places(
    outlook: Outlook,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    owner: User | None,
    image: str | None = None,
) -> tuple[Place, ...]:
    if owner is not None:
        check_member(owner, outlook.tenant)
    if pool.pk not in outlook.pools:
        raise no_access(outlook.tenant, pool)
    return places_for(outlook, outlook.pools[pool.pk], profile, ranks, during, image)


def _preview(
    outlook: Outlook,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    places: tuple[Place, ...],
    reason: ReservationRefused | None,
) -> Preview:
    here = outlook.pools.get(pool.pk)
    uses = here.quota_uses(during) if here and outlook.covers(during) else []
    weight = profile.weight * ranks

    def cost(status: BudgetStatus) -> int:
        return status.cost(weight, during.lower, during.upper)

    met = [status for status in outlook.budgets if cost(status)]
    return Preview(
        places,
        reason,
        reason.alternatives if reason else (),
        weight * int((during.upper - during.lower).total_seconds()),
        min(met, key=lambda status: status.left - cost(status), default=None),
        min(reversed(uses), key=lambda use: use.left, default=None),
    )
