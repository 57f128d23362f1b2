"""What becomes of a request that waits: a place, an offer, or that it gives up. Call under the pool's lock.

Nothing is frozen here: a pass hands to the nodes what it has bound in one go, when it has taken every other lock.
"""

import datetime as dt

from django.conf import settings

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Pool
from portal.notices.models import Kind
from portal.reservations.displacing import Claimed
from portal.reservations.giving_way import make_way
from portal.reservations.models import Approval, Reservation, State, Wait
from portal.reservations.questions import approval_needed
from portal.reservations.rebinding import bind
from portal.reservations.request import Request
from portal.reservations.rules import Allowed
from portal.reservations.telling import ask_leads, tell_booked, tell_owner, tell_pages
from portal.workloads.drafts import WorkloadDraft
from portal.workloads.models import Workload

# Who was served so soon after asking has seen it in the answer.
AT_ONCE = dt.timedelta(minutes=1)
SHORTEST_OFFER = dt.timedelta(minutes=5)
LEAST_LEFT = dt.timedelta(hours=1)


def request_of(reservation: Reservation, during) -> Request:
    """The queued request for this window, with the weight that it was asked with; its workload is checked again."""
    return Request(
        created_by=reservation.created_by,
        owner=reservation.owner,
        tenant=reservation.tenant,
        pool=reservation.pool,
        profile=reservation.profile,
        ranks=reservation.ranks,
        during=during,
        workload=draft_of(reservation.workload),
        instead_of=reservation,
    )


def draft_of(workload: Workload) -> WorkloadDraft:
    return WorkloadDraft(
        workload.name, workload.image, tuple(workload.command), dict(workload.environment), workload.grace_seconds,
        workload.rank_loss, workload.restarts_most,
    )


def bind_place(
    request: Request, reservation: Reservation, allowed: Allowed, claimed: Claimed, now: dt.datetime
) -> None:
    """The wait is over: confirmed, or a question to the leads where the price asks for one."""
    during = allowed.during
    # What was displaced had its answer before it began.
    approval = None if reservation.continues_id else approval_needed(request, during, now)
    state = State.REQUESTED if approval else State.CONFIRMED
    mine = Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED)
    mine.update(
        state=state, during=during, borrowed=allowed.borrowed, approval=approval,
        hold_expires_at=approval.expires_at if approval else None)  # fmt: skip
    waited = now - reservation.wait.since
    Wait.objects.filter(reservation=reservation).delete()
    _set(reservation, state, during, allowed, approval)
    make_way(claimed, by=reservation, now=now)
    bind(reservation, request.profile, claimed.placements, now, freeze=False)
    record_change(
        actor=None, action="reservation.served", subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"state": State.QUEUED},
        after={
            "state": state, "start": during.lower.isoformat(), "end": during.upper.isoformat(),
            "borrowed": allowed.borrowed, "waited_seconds": max(0, int(waited.total_seconds()))})  # fmt: skip
    tell_served(reservation, waited, now)


def _set(reservation: Reservation, state: State, during, allowed: Allowed, approval: Approval | None) -> None:
    reservation.state, reservation.during, reservation.borrowed = state, during, allowed.borrowed
    reservation.approval, reservation.hold_expires_at = approval, approval.expires_at if approval else None


def tell_served(reservation: Reservation, waited: dt.timedelta, now: dt.datetime) -> None:
    """With the real start, unless who asked sees it in the answer."""
    if waited < AT_ONCE:
        tell_booked(reservation, now)
    elif reservation.state == State.REQUESTED:
        ask_leads(reservation)
        tell_pages(reservation)
    else:
        tell_owner(reservation, Kind.CONFIRMED, starts_at=reservation.during.lower, ends_at=reservation.during.upper)


def bind_offer(
    request: Request, reservation: Reservation, allowed: Allowed, claimed: Claimed, now: dt.datetime
) -> None:
    """The window that it waits for, held for it until the deadline; nothing is started before it is taken."""
    during = allowed.during
    deadline = offer_deadline(reservation, during, now)
    mine = Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED)
    mine.update(during=during, borrowed=allowed.borrowed, hold_expires_at=deadline)
    Wait.objects.filter(reservation=reservation).update(
        reason="offered", evidence={"until": deadline.isoformat()}, estimated_at=during.lower, checked_at=now
    )
    reservation.during, reservation.borrowed, reservation.hold_expires_at = during, allowed.borrowed, deadline
    make_way(claimed, by=reservation, now=now)
    bind(reservation, request.profile, claimed.placements, now, freeze=False)
    record_change(
        actor=None, action="reservation.offered", subject=reservation.number, tenant_id=reservation.tenant_id,
        after={
            "start": during.lower.isoformat(), "end": during.upper.isoformat(),
            "until": deadline.isoformat()})  # fmt: skip
    tell_owner(reservation, Kind.OFFERED, starts_at=during.lower, ends_at=during.upper, expires_at=deadline)


def offer_deadline(reservation: Reservation, during, now: dt.datetime) -> dt.datetime:
    """Half an hour, or by the start of the window, but long enough to answer; never when too little of it is left."""
    by_start = max(during.lower, now + SHORTEST_OFFER)
    return min(now + settings.OFFER_HOLD, by_start, max(reservation.wait.give_up_at, now + SHORTEST_OFFER))


def worth_until(during) -> dt.datetime:
    """Until when the rest of a window is still worth having: while half of it or an hour is left."""
    return during.upper - min((during.upper - during.lower) / 2, LEAST_LEFT)


def give_up_late(pool: Pool, now: dt.datetime) -> int:
    """What found no place in its time is cancelled, and its owner told."""
    rows = Reservation.objects.filter(
        pool=pool, state=State.QUEUED, hold_expires_at__isnull=True, wait__give_up_at__lte=now
    ).select_related("wait", "workload", "owner")  # fmt: skip
    late = list(rows.order_by("pk"))
    for reservation in late:
        end_wait(reservation, "reservation.gave_up", now)
        tell_owner(reservation, Kind.GAVE_UP, pool=pool.name)
    return len(late)


def end_wait(reservation: Reservation, action: str, now: dt.datetime, actor: User | None = None) -> None:
    """Cancelled without ever having started."""
    mine = Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED)
    mine.update(state=State.CANCELLED, hold_expires_at=None, ended_at=now)
    Wait.objects.filter(reservation=reservation).delete()
    record_change(
        actor=actor, action=action, subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"state": State.QUEUED}, after={"state": State.CANCELLED})  # fmt: skip
