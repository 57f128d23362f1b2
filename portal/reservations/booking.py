"""Booking: one transaction that locks, looks, decides, writes and tells."""

import hashlib
import json
import logging
import random
import time

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2 import errorcodes
from psycopg2.extras import DateTimeTZRange, NumericRange

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Gpu, Pool, Profile
from portal.inventory.services import raise_generations
from portal.quotas.models import Budget
from portal.reservations import rules
from portal.reservations.errors import Busy, IdempotencyConflict, NoCapacity, ReservationRefused
from portal.reservations.models import IdempotencyKey, Lease, Reservation, State
from portal.reservations.selectors import gpu_views, profiles_of, shape_of, window_of
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft
from portal.workloads.models import Workload
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import Placement

log = logging.getLogger(__name__)

TRIES = 5
LOCK_WAIT_SECONDS = 10
AGAIN = {errorcodes.DEADLOCK_DETECTED, errorcodes.SERIALIZATION_FAILURE}
TAKEN = {errorcodes.EXCLUSION_VIOLATION}
LATE = {errorcodes.LOCK_NOT_AVAILABLE, errorcodes.QUERY_CANCELED}


def book_reservation(
    *,
    created_by: User,
    owner: User,
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    workload: WorkloadDraft,
    key: str = "",
) -> Reservation:
    """Book all ranks or none, or raise :class:`ReservationRefused` and store nothing.

    The same ``key`` by the same person books once: a repeated request gets the first one's reservation.
    Locks the pool, then the budgets from root to leaf. Deadlocks and lost races are tried again a few times.
    """
    digest = _digest(owner, tenant, pool, profile, ranks, during, workload)
    for attempt in range(TRIES):
        try:
            with transaction.atomic():
                earlier = _claim_key(created_by, key, digest)
                if earlier is not None:
                    return earlier
                reservation = _book(created_by, owner, tenant, pool, profile, ranks, during, workload)
                if key:
                    IdempotencyKey.objects.filter(user=created_by, key=key).update(reservation=reservation)
                return reservation
        except DatabaseError as error:
            _answer(error, attempt, pool)
    raise Busy(_("%(pool)s is being changed by many at once. Nothing was booked; try again.") % {"pool": pool})


def _digest(owner, tenant, pool, profile, ranks, during, workload) -> str:
    """What the request asks for, so that a key used for something else is noticed."""
    wanted = [owner.pk, tenant.pk, pool.pk, profile.pk, ranks, during.lower.isoformat(), during.upper.isoformat()]
    wanted += [workload.name, workload.image, list(workload.command), workload.environment]
    wanted.append(workload.grace_seconds)
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()


def _claim_key(user: User, key: str, digest: str) -> Reservation | None:
    """Insert the key, or wait for who holds it and return what it booked. Two equal requests meet on its unique row."""
    if not key:
        return None
    row, made = IdempotencyKey.objects.get_or_create(user=user, key=key, defaults={"request_hash": digest})
    if made:
        return None
    if row.request_hash != digest:
        raise IdempotencyConflict(_("This key was used for another request. Use a new one."))
    return row.reservation


def _book(created_by, owner, tenant, pool, profile, ranks, during, workload) -> Reservation:
    pool = lock_pool(pool.pk)
    _lock_budgets(tenant)
    now = timezone.now()
    during = rules.check_request(owner, tenant, pool, profile, ranks, during, workload, now)
    placements = place_gang(
        shape_of(profile),
        ranks,
        gpu_views(pool, during, now),
        window_of(during),
        tuple(map(shape_of, profiles_of(pool))),
    )
    if not placements:
        raise NoCapacity(_no_room(profile, ranks, pool), {"ranks": ranks, "profile": profile.name})
    reservation = _write(created_by, owner, tenant, pool, profile, during, workload, placements, now)
    record_change(
        actor=created_by,
        action="reservation.booked",
        subject=reservation.number,
        tenant_id=tenant.pk,
        after={
            "profile": profile.name,
            "ranks": ranks,
            "start": during.lower.isoformat(),
            "end": during.upper.isoformat(),
            "owner": owner.pk,
        },
    )
    events.tell_tenant_on_commit(tenant.pk, "reservation.changed", reservation=reservation.pk)
    return reservation


def lock_pool(pool_id: int) -> Pool:
    """The lock of every change to what a pool holds; quotas are per tenant and pool, so it covers them too.

    Waits longer than other locks: behind a burst of requests for one pool, a late answer is better than none.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = %s", [f"{LOCK_WAIT_SECONDS}s"])
    return Pool.objects.select_for_update(no_key=True).get(pk=pool_id)


def _lock_budgets(tenant: Tenant) -> None:
    rows = Budget.objects.filter(tenant_id__in=tenant.ancestor_ids).order_by("tenant__path")
    list(rows.select_for_update(no_key=True, of=("self",)))


def _write(created_by, owner, tenant, pool, profile, during, draft, placements, now) -> Reservation:
    workload = Workload.objects.create(
        tenant=tenant,
        name=draft.name,
        image=draft.image,
        command=list(draft.command),
        environment=draft.environment,
        grace_seconds=draft.grace_seconds,
    )
    reservation = Reservation.objects.create(
        tenant=tenant,
        owner=owner,
        pool=pool,
        profile=profile,
        workload=workload,
        ranks=len(placements),
        weight=profile.weight,
        during=during,
        state=State.CONFIRMED,
        created_by=created_by,
        created_at=now,
    )
    frozen_at = now if during.lower <= now + settings.FREEZE_HORIZON else None
    Lease.objects.bulk_create(_lease(reservation, profile, placement, frozen_at) for placement in placements)
    Pool.objects.filter(pk=pool.pk).update(revision=pool.revision + 1)
    if frozen_at:
        raise_generations(
            set(Gpu.objects.filter(pk__in=[p.gpu_id for p in placements]).values_list("node_id", flat=True))
        )
    return reservation


def _lease(reservation: Reservation, profile: Profile, placement: Placement, frozen_at) -> Lease:
    limited = profile.max_count == 1 and len(profile.starts) > 1
    return Lease(
        reservation=reservation,
        rank=placement.rank,
        gpu_id=placement.gpu_id,
        frozen_at=frozen_at,
        span=NumericRange(placement.start, placement.end, "[)"),
        during=reservation.during,
        only_one=profile.name if limited else None,
    )


def _no_room(profile: Profile, ranks: int, pool: Pool) -> str:
    return _("%(pool)s has no room for %(ranks)d × %(profile)s in this window.") % {
        "pool": pool,
        "ranks": ranks,
        "profile": profile.name,
    }


def _answer(error: DatabaseError, attempt: int, pool: Pool) -> None:
    """Turn what the database said into a refusal, or return to try again; anything unknown is raised as it is."""
    code = getattr(error.__cause__, "pgcode", None)
    if code in TAKEN:
        raise NoCapacity(
            _("Somebody else was first: the slice was taken a moment ago."), {"attempt": attempt}
        ) from error
    if code in LATE:
        raise Busy(
            _("%(pool)s is being changed by many at once. Nothing was booked; try again.") % {"pool": pool}
        ) from error
    if code not in AGAIN or connection.in_atomic_block:
        raise error
    log.info("booking in pool %s met %s, try %d", pool.pk, code, attempt + 1)
    time.sleep(random.uniform(0.01, 0.05) * (attempt + 1))


__all__ = ["ReservationRefused", "book_reservation", "lock_pool"]
