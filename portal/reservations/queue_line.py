"""The queue as people see it: who waits in which order, since when, and by which shares the order came about."""

import datetime as dt
from dataclasses import dataclass

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Reservation, State, Wait
from portal.reservations.queue_binding import draft_of
from portal.reservations.queue_plan import Planned, latest_start
from portal.reservations.queue_reasons import reason_sentence
from portal.reservations.queue_serving import plans_in, waiting_in
from portal.reservations.queue_use import in_turn, standings_in
from portal.reservations.queueing import Asked, check_queueable
from portal.reservations.request import Request
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft
from portal.workloads.models import Workload
from scheduler.placement.fairness import Standing

MOST_SHOWN = 200


@dataclass(frozen=True)
class Turn:
    """A place in line, from 1. ``seen`` is whether the reader may see whose it is."""

    number: int
    reservation: Reservation
    seen: bool


@dataclass(frozen=True)
class ShareRow:
    """What a tenant's own people used lately, in weighted slice-seconds, against the weight it is guaranteed."""

    tenant: Tenant
    used: int
    guaranteed: int
    seen: bool

    @property
    def each(self) -> int:
        """Used for each slice that is guaranteed; the least of these comes first."""
        return self.used // max(self.guaranteed, 1)


@dataclass(frozen=True)
class QueueView:
    turns: list[Turn]
    count: int
    shares: list[ShareRow]


@dataclass(frozen=True)
class Outcome:
    """What asking now would come to. ``during`` is None when no start is in sight, or it would be ``refusal``."""

    during: DateTimeTZRange | None
    served: bool
    reason: str
    number: int
    refusal: ReservationRefused | None = None


def pools_with_lines(reader: User) -> list[Pool]:
    """By name; each with how many are ``waiting`` in it and how many of those are ``mine``."""
    waits = Wait.objects.filter(reservation__pool=OuterRef("pk"), reservation__state=State.QUEUED).order_by()
    line = waits.values("reservation__pool").annotate(number=Count("pk"))
    mine = line.filter(reservation__owner=reader)
    counted = {name: Coalesce(Subquery(rows.values("number")), 0) for name, rows in (("waiting", line), ("mine", mine))}
    return list(Pool.objects.annotate(**counted).order_by("name", "pk"))


def queue_view(pool: Pool, seen_tenant_ids: set[int], now: dt.datetime) -> QueueView:
    """Everybody who waits in the pool; eight queries, whatever their number."""
    found = standings_in(pool, now)
    waiting = in_turn(waiting_in(pool), [one for _tenant, one in found])
    turns = [Turn(number, one, one.tenant_id in seen_tenant_ids) for number, one in enumerate(waiting, 1)]
    shares = [_share(tenant, one, tenant.pk in seen_tenant_ids) for tenant, one in found if one.used or one.guaranteed]
    return QueueView(turns[:MOST_SHOWN], len(turns), shares)


def _share(tenant: Tenant, standing: Standing, seen: bool) -> ShareRow:
    return ShareRow(tenant, standing.used, standing.guaranteed or 0, seen)


def number_in_line(reservation: Reservation, now: dt.datetime) -> int | None:
    """Its place in line, from 1; None once it has one of its own."""
    standings = [one for _tenant, one in standings_in(reservation.pool, now)]
    keys = [one.pk for one in in_turn(waiting_in(reservation.pool), standings)]
    return keys.index(reservation.pk) + 1 if reservation.pk in keys else None


def waiting_for(pool: Pool, during: DateTimeTZRange) -> int:
    """How many wait already for a window that meets this one."""
    rows = Reservation.objects.filter(pool=pool, state=State.QUEUED, wait__fixed=True, during__overlap=during)
    return rows.count()


def outcome_of(
    *,
    asker: User,
    tenant: Tenant,
    pool: Pool,
    profile: Profile,
    ranks: int,
    seconds: int,
    workload: WorkloadDraft | None,
    now: dt.datetime,
) -> Outcome:
    """A look without a lock: when it would start if it were asked now, behind all that wait already."""
    now = now.replace(microsecond=0)
    asked = Asked.soon(seconds, now)
    request = Request(
        created_by=asker, owner=asker, tenant=tenant, pool=pool, profile=profile, ranks=ranks,
        during=DateTimeTZRange(now, now + dt.timedelta(seconds=seconds), "[)"), workload=workload)  # fmt: skip
    try:
        check_queueable(request, asked, now)
    except ReservationRefused as refusal:
        return Outcome(None, False, "", 0, refusal)
    mine = _as_if_queued(request, asked, now)
    board, plans = plans_in(pool, now, only_until=mine)
    plan = plans[-1]
    served = plan.during is not None and plan.during.lower <= latest_start(board, mine)
    return Outcome(plan.during, served, "" if served else _sentence(plan), len(plans))


def _as_if_queued(request: Request, asked: Asked, now: dt.datetime) -> Reservation:
    """Rows that are never stored; their key is greater than every other, since they come last between equals."""
    draft = request.workload or draft_of(Workload(name=request.profile.name))
    mine = Reservation(
        pk=2**62, tenant=request.tenant, owner=request.owner, pool=request.pool, profile=request.profile,
        workload=Workload(name=draft.name, image=draft.image), ranks=request.ranks, weight=request.weight_each,
        during=request.during, state=State.QUEUED, created_by=request.created_by, created_at=now)  # fmt: skip
    Wait(reservation=mine, seconds=asked.seconds, not_before=asked.not_before, give_up_at=asked.give_up_at, since=now)
    return mine


def _sentence(plan: Planned) -> str:
    wait = plan.reservation.wait
    wait.reason, wait.evidence = plan.reason, plan.evidence
    return reason_sentence(wait)
