"""How firm a reservation stands: waits for a lead, borrowed, displaced and continued elsewhere."""

import datetime as dt
from dataclasses import dataclass

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.reservations.borrowing import would_borrow
from portal.reservations.models import OPEN, Approval, EndReason, Reservation, State
from portal.reservations.outlook import Outlook
from portal.reservations.questions import above_threshold, held_until
from portal.reservations.request import Request, price_of
from portal.reservations.selectors import reservations_of
from portal.tenants.models import Role
from portal.tenants.selectors import may


@dataclass(frozen=True)
class Standing:
    """``displaced_by`` is None where the reader may not see who it was. ``rest`` is what waits in its stead."""

    reservation: Reservation
    question: Approval | None
    may_decide: bool
    borrowed: bool
    rest: Reservation | None
    displaced: bool
    displaced_by: Reservation | None
    credited: int


def standing_of(reservation: Reservation, reader: User) -> Standing:
    """Two queries at rest, a few more for what waits for a lead or was displaced."""
    rest = Reservation.objects.filter(continues=reservation).order_by("pk").first()
    question = None
    if reservation.approval_id is not None:
        question = Approval.objects.select_related("decided_by", "tenant").get(pk=reservation.approval_id)
    waits = reservation.state == State.REQUESTED and question is not None and not question.decision
    entry = None
    if rest is not None or reservation.end_reason == EndReason.DISPLACED:
        told = AuditEntry.objects.filter(
            tenant_id=reservation.tenant_id, action="reservation.displaced", subject=reservation.number
        )
        entry = told.order_by("pk").last()
    after = (entry.after or {}) if entry else {}
    return Standing(
        reservation=reservation,
        question=question,
        may_decide=waits and may(reader, reservation.tenant, Role.LEAD),
        borrowed=reservation.borrowed and reservation.state in (*OPEN, State.REQUESTED),
        rest=rest,
        displaced=entry is not None,
        displaced_by=_seen(reader, str(after.get("by", ""))),
        credited=int(after.get("credited_slice_seconds", 0)),
    )


def _seen(reader: User, number: str) -> Reservation | None:
    pk = number.removeprefix("R-")
    return reservations_of(reader).select_related("tenant").filter(pk=pk).first() if pk.isdecimal() else None


@dataclass(frozen=True)
class Terms:
    """What comes with a request that fits: ``asks_above`` is the threshold, in slice-seconds, above which a lead
    decides (None: nobody is asked) and ``held_until`` when an unanswered hold ends."""

    borrowed: bool
    asks_above: int | None
    price: int
    held_until: dt.datetime


def terms_of(request: Request, outlook: Outlook, *, leads: bool) -> Terms:
    """One query beyond the outlook, which covers the request, where the pool's quotas are not in it. ``leads``: whether
    who asks leads the tenant."""
    price = price_of(request, request.during)
    return Terms(
        borrowed=would_borrow(outlook, request.pool, request.weight, request.during),
        asks_above=above_threshold(request.created_by, request.tenant, outlook.policy, price, leads=leads),
        price=price,
        held_until=held_until(request.during, outlook.now),
    )
