"""Booking: one transaction that locks, looks, decides, writes and tells."""

import datetime as dt
import hashlib
import json
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2 import errorcodes
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Node, Pool, Profile
from portal.quotas.models import Budget
from portal.reservations.borrowing import is_bounded, promote_own
from portal.reservations.displacing import Claimed, claim_room
from portal.reservations.errors import Busy, IdempotencyConflict, NoCapacity
from portal.reservations.giving_way import make_way
from portal.reservations.models import IdempotencyKey, Reservation, State
from portal.reservations.pool_calendar import PoolPicture, glancing_at, looking_at
from portal.reservations.pool_turns import Turn, turn_in
from portal.reservations.questions import approval_needed
from portal.reservations.rearranging import NotMovable
from portal.reservations.rebinding import bind
from portal.reservations.request import Request
from portal.reservations.rules import Allowed, check_request
from portal.reservations.selectors import shape_of, window_of
from portal.reservations.telling import tell_booked
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft, workload_from
from scheduler.placement.replan import Admission, Refused

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

TRIES = 5
# In turn within the process, which costs the database nothing, and then for the pool's lock.
TURN_WAIT_SECONDS = 30
LOCK_WAIT_SECONDS = 10
AGAIN = {errorcodes.DEADLOCK_DETECTED, errorcodes.SERIALIZATION_FAILURE}
CLAIM_KEY = """
INSERT INTO reservations_idempotencykey (user_id, key, request_hash, created_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (user_id, key) DO NOTHING
"""
# Both in one go: a lock is waited for with the patience that holds when the second begins.
LOCK_POOL = """
SET LOCAL lock_timeout = %(patience)s;
SELECT * FROM inventory_pool WHERE id = %(pool)s FOR NO KEY UPDATE"""
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
    node_id: int | None = None,
    together: bool | None = None,
) -> Reservation:
    """Book all ranks or none, or raise :class:`ReservationRefused` and store nothing.

    ``node_id``: no other node will do, and the leases stay there. ``together``: see :class:`Request`.
    The same ``key`` by the same person books once: a repeated request gets the first one's reservation.
    Locks the pool, then the budgets from root to leaf. Deadlocks and lost races are tried again a few times.
    """
    request = Request(
        created_by=created_by, owner=owner, tenant=tenant, pool=pool, profile=profile, ranks=ranks, during=during,
        workload=workload, node_id=node_id, together=together)  # fmt: skip
    digest = _digest(request)
    with turn_in(pool.pk, TURN_WAIT_SECONDS) as turn:
        if not turn.came:
            raise busy(pool)
        return retried(pool, lambda: _book_once(request, key, digest, turn))


def retried(pool: Pool, work: Callable[[], Answer]) -> Answer:
    """``work`` in a transaction of its own; deadlocks and lost races are tried again, the rest becomes a refusal."""
    for attempt in range(TRIES):
        try:
            with transaction.atomic():
                return work()
        except DatabaseError as error:
            _answer(error, attempt, pool)
    raise busy(pool)


def busy(pool: Pool) -> Busy:
    return Busy(_("%(pool)s is being changed by many at once. Nothing was changed; try again.") % {"pool": pool})


def _book_once(request: Request, key: str, digest: str, turn: Turn) -> Reservation:
    transaction.on_commit(turn.end)  # before anybody is told, which takes as long as the booking
    earlier = claim_key(request.created_by, key, digest)
    if earlier is not None:
        return earlier
    reservation = _book(request)
    if key:
        IdempotencyKey.objects.filter(user=request.created_by, key=key).update(reservation=reservation)
    return reservation


def _digest(request: Request) -> str:
    """What the request asks for, so that a key used for something else is noticed."""
    during, workload = request.during, request.workload
    wanted: list = [request.owner.pk, request.tenant.pk, request.pool.pk, request.profile.pk, request.ranks]
    wanted += [during.lower.isoformat(), during.upper.isoformat(), msgspec.to_builtins(workload)]
    if request.node_id is not None or request.together is not None:
        wanted += [request.node_id, request.together]
    return digest_of(wanted)


def digest_of(wanted: list) -> str:
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()


def claim_key(user: User, key: str, digest: str) -> Reservation | None:
    """Insert the key, or wait for who holds it and return what it booked. Two equal requests meet on its unique row."""
    if not key:
        return None
    with connection.cursor() as cursor:
        cursor.execute(CLAIM_KEY, [user.pk, key, digest, timezone.now()])
        if cursor.rowcount:
            return None
    row = IdempotencyKey.objects.select_related("reservation").get(user=user, key=key)
    if row.request_hash != digest:
        raise IdempotencyConflict(_("This key was used for another request. Use a new one."))
    if row.reservation is not None:
        row.reservation.was_booked_before = True
    return row.reservation


def _book(request: Request) -> Reservation:
    pool = enter_pool(request)
    now = timezone.now()
    with looking_at(pool, now) as picture:
        budgets, seen = picture.terms.budgets_binding(request.tenant), picture.version
        somebody_borrows = is_bounded(request.during) and picture.holdings.anybody_borrows(request.during)
    if budgets:
        budgets = lock_budgets(request.tenant)
    if somebody_borrows:
        promote_own(request)
    allowed = check_request(request, now, seen=None if somebody_borrows else seen, budgets=budgets)
    claimed = find_place(request, allowed, now)
    reservation = _write(request, allowed, now)
    make_way(claimed, by=reservation, now=now)
    bind(reservation, request.profile, claimed.placements, now)
    record_change(
        actor=request.created_by,
        action="reservation.booked" if reservation.state == State.CONFIRMED else "reservation.requested",
        subject=reservation.number,
        tenant_id=request.tenant.pk,
        after={
            "profile": request.profile.name,
            "pool": pool.name,
            "ranks": request.ranks,
            "start": allowed.during.lower.isoformat(),
            "end": allowed.during.upper.isoformat(),
            "owner": request.owner.pk,
            "borrowed": allowed.borrowed,
        },
    )
    tell_booked(reservation, now)
    return reservation


def find_place(request: Request, allowed: Allowed, now: dt.datetime, without: Iterable[int] = ()) -> Claimed:
    """Where the ranks sit, and who gives way for them; only what is guaranteed displaces. Raises when there is none."""
    if allowed.crowded is None:
        with looking_at(request.pool, now, seen=allowed.seen) as picture:
            admitted = _admit(picture, request, allowed.during, without)
            anybody_borrows = picture.holdings.anybody_borrows(allowed.during)
        if isinstance(admitted, Admission):
            return Claimed(admitted.placements, moves=admitted.moves)
        if not anybody_borrows:
            raise no_room(request)
    gives_way = not allowed.borrowed and request.node_id is None
    claimed = None if not gives_way else claim_room(request, allowed, now, without)
    if claimed is None:
        raise allowed.crowded or no_room(request)
    return claimed


def _admit(
    picture: PoolPicture, request: Request, during: DateTimeTZRange, without: Iterable[int] = ()
) -> Admission | Refused:
    return picture.admit(
        shape_of(request.profile), request.ranks, window_of(during), without=set(without),
        only_nodes=None if request.node_id is None else {request.node_id})  # fmt: skip


def _is_full(picture: PoolPicture, request: Request, during: DateTimeTZRange) -> bool:
    return picture.is_full(shape_of(request.profile), request.ranks, window_of(during))


def enter_pool(request: Request) -> Pool:
    """The pool's lock. Who by what was seen last cannot fit, however it were packed, is refused before if that is still
    true; of many who want the last slice all but one, so that the lock is never theirs to wait for."""
    _refuse_if_full(request, timezone.now())
    return lock_pool(request.pool.pk)


def _refuse_if_full(request: Request, now: dt.datetime) -> None:
    """By the rows as they are at this moment, and without waiting for anybody. A person's share is not looked at: that
    takes a lock."""
    if not is_bounded(request.during):
        return
    with glancing_at(request.pool.pk) as picture:
        if picture is None or picture.terms.policy_of(request.tenant).weight_rules:
            return
        if not _is_full(picture, request, request.during):
            return
    allowed = check_request(request, now)
    with looking_at(request.pool, now, seen=allowed.seen) as picture:
        others_give_way = not allowed.borrowed and picture.holdings.anybody_borrows(allowed.during)
        if not others_give_way and _is_full(picture, request, allowed.during):
            raise no_room(request)


def lock_pool(pool_id: int) -> Pool:
    """The lock of every change to what a pool holds; quotas are per tenant and pool, so it covers them too.

    Waits longer than other locks: behind a burst of requests for one pool, a late answer is better than none.
    """
    rows = Pool.objects.raw(LOCK_POOL, {"patience": f"{LOCK_WAIT_SECONDS}s", "pool": pool_id})
    pool = next(iter(rows), None)
    if pool is None:
        raise Pool.DoesNotExist
    return pool


def lock_budgets(tenant: Tenant) -> list[Budget]:
    """Those that bind the tenant, from the root down."""
    rows = Budget.objects.filter(tenant_id__in=tenant.ancestor_ids).select_related("tenant").order_by("tenant__path")
    return list(rows.select_for_update(no_key=True, of=("self",)))


def _write(request: Request, allowed: Allowed, now: dt.datetime) -> Reservation:
    approval = approval_needed(request, allowed.during, now, allowed.policy)
    return Reservation.objects.create(
        tenant=request.tenant,
        owner=request.owner,
        pool=request.pool,
        profile=request.profile,
        workload=workload_from(request.workload or WorkloadDraft(request.profile.name), request.tenant),
        ranks=request.ranks,
        pinned_node_id=request.node_id,
        together=request.together,
        weight=request.weight_each,
        during=allowed.during,
        borrowed=allowed.borrowed,
        state=State.REQUESTED if approval else State.CONFIRMED,
        approval=approval,
        hold_expires_at=approval.expires_at if approval else None,
        created_by=request.created_by,
        created_at=now,
    )


def no_room(request: Request) -> NoCapacity:
    numbers = {"ranks": request.ranks, "profile": request.profile.name, "pool": request.pool.name}
    if request.node_id is not None:
        numbers["pool"] = Node.objects.get(pk=request.node_id).name
    sentence = _("%(pool)s has no room for %(ranks)d × %(profile)s in this window.")
    return NoCapacity(sentence % numbers, {"ranks": request.ranks, "profile": request.profile.name})


def _answer(error: DatabaseError, attempt: int, pool: Pool) -> None:
    """Turn what the database said into a refusal, or return to try again; anything unknown is raised as it is."""
    code = getattr(error.__cause__, "pgcode", None)
    if code in TAKEN:
        raise NoCapacity(
            _("Somebody else was first: the slice was taken a moment ago."), {"attempt": attempt}
        ) from error
    if code in LATE:
        raise busy(pool) from error
    if not (code in AGAIN or isinstance(error, NotMovable)) or connection.in_atomic_block:
        raise error
    log.info("booking in pool %s met %s, try %d", pool.pk, code, attempt + 1)
    time.sleep(random.uniform(0.01, 0.05) * (attempt + 1))
