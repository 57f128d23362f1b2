"""Which future reservations the quotas and policies as they stand now would no longer take."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.models import Quota
from portal.quotas.policies import policies_of
from portal.quotas.selectors import with_hours
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import COUNTED, Lease, Reservation, State
from portal.reservations.peaks import highest_within
from portal.reservations.policy_rules import check_coverage, check_policy
from portal.tenants.models import Tenant


@dataclass(frozen=True)
class Uncovered:
    """``reason`` is the sentence with which it would be refused now."""

    reservation: Reservation
    reason: str


@dataclass(frozen=True)
class Claim:
    """What a reservation holds of a pool from one instant to another; all its leases together are several."""

    reservation_id: int
    owner_id: int
    pool_id: int
    since: dt.datetime
    until: dt.datetime
    weight: int


def uncovered_reservations(tenant: Tenant, now: dt.datetime, pool: Pool | None = None) -> dict[int, Uncovered]:
    """By id, those of the tenant's subtree that begin after ``now``; in one pool or in all. Seven queries.

    Validity, hours and policies are asked as booking asks them; how far ahead one may book is not, since that was kept
    when it was booked. Where a limit is exceeded, those that were booked first keep their place in it. Call under the
    locks of the pools concerned.
    """
    future = _future(tenant, now, pool)
    if not future:
        return {}
    found = _by_rule(future, now)
    claims = _claims(tenant, now, pool)
    for reservation_id, reason in (_by_quota(tenant, claims, now, pool) | _by_person(tenant, claims)).items():
        if reservation_id in future:
            found.setdefault(reservation_id, Uncovered(future[reservation_id], reason))
    return found


def _future(tenant: Tenant, now: dt.datetime, pool: Pool | None) -> dict[int, Reservation]:
    """A queued one holds a place, and so a window, only while it is offered one."""
    has_place = Q(state__in=[State.REQUESTED, State.CONFIRMED]) | Q(state=State.QUEUED, hold_expires_at__isnull=False)
    rows = Reservation.objects.filter(has_place, tenant__path__startswith=tenant.path, during__startswith__gt=now)
    rows = rows.filter(pool=pool) if pool else rows
    rows = rows.select_related("tenant", "pool", "profile", "owner", "workload")
    return {row.pk: row for row in rows.order_by("during", "pk")}


def _by_rule(future: dict[int, Reservation], now: dt.datetime) -> dict[int, Uncovered]:
    tenants = {row.tenant_id: row.tenant for row in future.values()}
    policies = policies_of(tenants.values())
    above = {pk for tenant in tenants.values() for pk in tenant.ancestor_ids}
    rows: dict[tuple[int, int], list[Quota]] = defaultdict(list)
    pools = {row.pool_id for row in future.values()}
    for quota in with_hours(Quota.objects.filter(tenant_id__in=above, pool__in=pools)):
        rows[quota.tenant_id, quota.pool_id].append(quota)
    found = {}
    for pk, row in future.items():
        binding = [quota for tenant_id in row.tenant.ancestor_ids for quota in rows[tenant_id, row.pool_id]]
        try:
            check_coverage(binding, row.during)
            check_policy(
                policies[row.tenant_id], pool=row.pool, profile=row.profile, weight=row.weight * row.ranks,
                during=row.during, now=now, image=row.workload.image, has_started=True)  # fmt: skip
        except ReservationRefused as refusal:
            found[pk] = Uncovered(row, refusal.message)
    return found


def _claims(tenant: Tenant, now: dt.datetime, pool: Pool | None) -> list[Claim]:
    """What is held from now on, in the order in which it was booked."""
    rows = Lease.objects.filter(
        COUNTED, reservation__tenant__path__startswith=tenant.path, during__endswith__gt=now)  # fmt: skip
    rows = rows.filter(reservation__pool=pool) if pool else rows
    held = rows.order_by("reservation_id", "rank").values_list(
        "reservation_id", "reservation__owner_id", "reservation__pool_id", "during", "reservation__weight"
    )
    return [Claim(pk, owner, pool_id, time.lower, time.upper, weight) for pk, owner, pool_id, time, weight in held]


def _by_quota(tenant: Tenant, claims: Sequence[Claim], now: dt.datetime, pool: Pool | None) -> dict[int, str]:
    """Beyond the limits of the tenant's own rows."""
    quotas = Quota.objects.filter(tenant=tenant, pool__in={claim.pool_id for claim in claims}).select_related("pool")
    found: dict[int, str] = {}
    for quota in quotas:
        mine = [claim for claim in claims if claim.pool_id == quota.pool_id]
        last = max((claim.until for claim in mine), default=now)
        part = quota.part_of(DateTimeTZRange(now, last, "[)")) if last > now else None
        sentence = _("%(tenant)s may hold %(limit)d slices of %(pool)s; those booked before this one hold them.")
        shown = {"tenant": tenant, "limit": quota.limit, "pool": quota.pool}
        found |= dict.fromkeys(beyond(quota.limit, mine, part) if part else (), sentence % shown)
    return found


def _by_person(tenant: Tenant, claims: Sequence[Claim]) -> dict[int, str]:
    """Beyond what the tenant's own policy lets one person hold at once."""
    most = policies_of([tenant])[tenant.pk].weight_rules
    if not claims or not most or most[-1][0] != tenant:
        return {}
    always = DateTimeTZRange(min(one.since for one in claims), max(one.until for one in claims), "[)")
    by_owner: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_owner[claim.owner_id].append(claim)
    sentence = _("One person of %(tenant)s holds at most %(most)d slices at once.")
    told = sentence % {"tenant": tenant, "most": most[-1][1]}
    return {pk: told for mine in by_owner.values() for pk in beyond(most[-1][1], mine, always)}


def beyond(limit: int, claims: Iterable[Claim], during: DateTimeTZRange) -> set[int]:
    """Ids of the reservations that no longer fit below the limit within the window, the earlier ones kept."""
    met = [claim for claim in claims if claim.since < during.upper and during.lower < claim.until]
    if _peak(met, during) <= limit:
        return set()
    by_reservation: dict[int, list[Claim]] = defaultdict(list)
    for claim in met:
        by_reservation[claim.reservation_id].append(claim)
    kept: list[Claim] = []
    gone = set()
    for pk, mine in by_reservation.items():
        since, until = min(one.since for one in mine), max(one.until for one in mine)
        near = [one for one in kept if one.since < until and since < one.until]
        if _peak([*near, *mine], DateTimeTZRange(max(since, during.lower), min(until, during.upper), "[)")) > limit:
            gone.add(pk)
        else:
            kept += mine
    return gone


def _peak(claims: Iterable[Claim], during: DateTimeTZRange) -> int:
    return highest_within(((claim.since, claim.until, claim.weight) for claim in claims), during)
