"""Asking without a window: as soon as possible, for so long. What fits now is served at once, the rest waits."""

import datetime as dt
from dataclasses import dataclass

import msgspec
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Gpu, NodeState, Pool, Profile
from portal.quotas.models import Quota
from portal.quotas.policies import policy_of
from portal.quotas.selectors import quotas_binding
from portal.reservations.booking import claim_key, digest_of, lock_budgets, lock_pool, retried
from portal.reservations.errors import (
    BudgetExceeded,
    NoCapacity,
    PolicyRefused,
    QuotaExceeded,
    ReservationRefused,
    WindowRefused,
    WorkloadRefused,
)
from portal.reservations.models import IdempotencyKey, Reservation, State, Wait
from portal.reservations.policy_rules import check_policy
from portal.reservations.queue_binding import worth_until
from portal.reservations.queue_serving import serve_under_lock
from portal.reservations.reasons import no_capacity, quota_exceeded
from portal.reservations.request import Request
from portal.reservations.rules import check_access, check_request, check_shape
from portal.reservations.selectors import shape_of
from portal.reservations.windows import check_window
from portal.tenants.models import Tenant
from portal.workloads.drafts import DraftRefused, WorkloadDraft, check_draft, workload_from
from scheduler.placement.explain import Reason, Why
from scheduler.placement.geometry import disjoint_count

GIVES_UP_AFTER = dt.timedelta(days=14)
FARTHEST = dt.timedelta(days=366)
# What may be otherwise by the time its turn comes; any other refusal of a window is final.
PASSES = (NoCapacity, QuotaExceeded, BudgetExceeded)


@dataclass(frozen=True)
class Asked:
    """``fixed`` is the one window that will do; else any of ``seconds`` from ``not_before`` on until ``give_up_at``."""

    seconds: int
    not_before: dt.datetime
    give_up_at: dt.datetime
    fixed: DateTimeTZRange | None = None

    @classmethod
    def soon(cls, seconds: int, now: dt.datetime) -> "Asked":
        return cls(seconds, now, now + GIVES_UP_AFTER)


def queue_request(
    *,
    created_by: User,
    owner: User,
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    seconds: int,
    workload: WorkloadDraft,
    not_before: dt.datetime | None = None,
    give_up_at: dt.datetime | None = None,
    fixed_window: DateTimeTZRange | None = None,
    key: str = "",
) -> Reservation:
    """Served at once, or queued with an estimated start and the reason why it waits; raises ReservationRefused.

    What could never be served is refused now, with the number. The same ``key`` by the same person asks once. Locks the
    pool, then the budgets of all that wait in it.
    """
    now = timezone.now()
    asked = _asked(seconds, not_before, give_up_at, fixed_window, now)
    during = fixed_window or DateTimeTZRange(asked.not_before, asked.not_before + dt.timedelta(seconds=seconds), "[)")
    request = Request(
        created_by=created_by, owner=owner, tenant=tenant, pool=pool, profile=profile, ranks=ranks, during=during,
        workload=workload)  # fmt: skip
    wanted = ["queue", owner.pk, tenant.pk, pool.pk, profile.pk, ranks, seconds, msgspec.to_builtins(workload)]
    wanted += [at.isoformat() if at else None for at in (not_before, give_up_at)]
    wanted += [str(fixed_window)] if fixed_window else []
    return retried(pool, lambda: _queue_once(request, asked, key, digest_of(wanted)))


def _asked(
    seconds: int,
    not_before: dt.datetime | None,
    give_up_at: dt.datetime | None,
    fixed: DateTimeTZRange | None,
    now: dt.datetime,
) -> Asked:
    if fixed is not None:
        return Asked(int((fixed.upper - fixed.lower).total_seconds()), fixed.lower, worth_until(fixed), fixed)
    if seconds < 1:
        raise WindowRefused(_("The length is at least a second."), {"seconds": seconds}, field="end")
    start = max(now, not_before or now).replace(microsecond=0)
    late = give_up_at or start + GIVES_UP_AFTER
    if late <= start:
        raise WindowRefused(
            _("The latest start is before the earliest."), {"give_up_at": late.isoformat()}, field="end"
        )
    if late > now + FARTHEST:
        raise WindowRefused(
            _("A request waits %(days)d days at most.") % {"days": FARTHEST.days}, {"days": FARTHEST.days}, field="end"
        )
    return Asked(seconds, start, late)


def _queue_once(request: Request, asked: Asked, key: str, digest: str) -> Reservation:
    earlier = claim_key(request.created_by, key, digest)
    if earlier is not None:
        return earlier
    pool = lock_pool(request.pool.pk)
    now = timezone.now()
    check_queueable(request, asked, now)
    reservation = _write(request, asked, now)
    if key:
        IdempotencyKey.objects.filter(user=request.created_by, key=key).update(reservation=reservation)
    record_change(
        actor=request.created_by, action="reservation.queued", subject=reservation.number,
        tenant_id=request.tenant.pk,
        after={
            "profile": request.profile.name, "pool": pool.name, "ranks": request.ranks, "seconds": asked.seconds,
            "not_before": asked.not_before.isoformat(), "give_up_at": asked.give_up_at.isoformat(),
            "owner": request.owner.pk, "fixed": asked.fixed is not None})  # fmt: skip
    serve_under_lock(pool, now)
    reservation.refresh_from_db()
    return reservation


def _write(request: Request, asked: Asked, now: dt.datetime) -> Reservation:
    assert request.workload is not None
    reservation = Reservation.objects.create(
        tenant=request.tenant,
        owner=request.owner,
        pool=request.pool,
        profile=request.profile,
        workload=workload_from(request.workload, request.tenant),
        ranks=request.ranks,
        weight=request.weight_each,
        during=request.during,
        state=State.QUEUED,
        created_by=request.created_by,
        created_at=now,
    )
    Wait.objects.create(
        reservation=reservation, fixed=asked.fixed is not None, seconds=asked.seconds, not_before=asked.not_before,
        give_up_at=asked.give_up_at, since=now)  # fmt: skip
    return reservation


def check_queueable(request: Request, asked: Asked, now: dt.datetime) -> None:
    """What does not depend on when it starts, and for one window all that will not pass by itself."""
    quotas = quotas_binding(request.tenant, request.pool)
    check_access(request.owner, request.tenant, request.pool, quotas)
    check_shape(request.pool, request.profile, request.ranks)
    if request.workload is not None:
        try:
            check_draft(request.workload)
        except DraftRefused as error:
            raise WorkloadRefused(str(error), field="workload") from error
    if asked.fixed is not None:
        _check_window(request, asked, now)
    else:
        check_window(request.during, request.pool, request.during.lower)
        _check_policy(request)
    check_ever_fits(request, quotas)


def _check_window(request: Request, asked: Asked, now: dt.datetime) -> None:
    if asked.give_up_at <= now:
        raise WindowRefused(_("Too little of this window is left to wait for it."), field="start")
    lock_budgets(request.tenant)
    try:
        check_request(request, now)
    except PASSES:
        return
    except PolicyRefused as refusal:
        if "most" not in refusal.evidence:
            raise


def _check_policy(request: Request) -> None:
    """Asked as if it were to start when it may: how far ahead it is booked is seen to by when it is served."""
    policy = policy_of(request.tenant)
    check_policy(
        policy, pool=request.pool, profile=request.profile, weight=request.weight, during=request.during,
        now=request.during.lower, image=request.workload.image if request.workload else None,
        held_by_person=lambda _tenant: 0)  # fmt: skip


def check_ever_fits(request: Request, quotas: list[Quota]) -> None:
    """Refuse what no quota would ever allow, or what the pool does not take even when it is empty."""
    refused: ReservationRefused | None = None
    for _tenant_id, rows in _by_tenant(quotas).items():
        most = max(rows, key=lambda row: row.limit)
        if request.weight > most.limit:
            refused = quota_exceeded(str(most.tenant), most.limit, 0, request.weight)
    if refused is not None:
        raise refused
    shape = shape_of(request.profile)
    gpus = Gpu.objects.filter(pool=request.pool, present=True).exclude(node__state=NodeState.RETIRED)
    at_most = sum(disjoint_count(shape, slices, 0) for slices in gpus.values_list("memory_slices", flat=True))
    if at_most < request.ranks:
        numbers: dict[str, int | str | None] = {"at_most": at_most, "ranks": request.ranks}
        raise no_capacity(Reason(Why.TOO_LARGE if at_most else Why.NO_DEVICE, numbers), request.pool, request.profile)


def _by_tenant(quotas: list[Quota]) -> dict[int, list[Quota]]:
    found: dict[int, list[Quota]] = {}
    for row in quotas:
        found.setdefault(row.tenant_id, []).append(row)
    return found
