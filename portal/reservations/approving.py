"""Answers to the leads' questions: the place is held until a lead has decided, or the time is up.

One question may be about many reservations: a series or a class is decided as one.
"""

import datetime as dt
import logging

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Pool
from portal.notices.models import Kind
from portal.notices.services import settle
from portal.reservations.booking import lock_pool, retried
from portal.reservations.ending import lock_reservations, refuse_held, withdraw_leases
from portal.reservations.errors import Busy, NoteMissing, StateConflict
from portal.reservations.models import LIVE, Approval, Decision, Lease, Reservation, State
from portal.reservations.questions import ask_approval
from portal.reservations.rebinding import freeze_now, lock_nodes, touch_pool
from portal.reservations.telling import tell_owner

__all__ = ["approve", "ask_approval", "expire_approvals", "refuse"]

log = logging.getLogger(__name__)

MOST_ROWS = 200


def approve(*, approval: Approval, actor: User, note: str = "") -> Approval:
    """Turn every hold of the question into a promise. Raises :class:`StateConflict` when it is decided already."""
    return _decided(approval, actor, Decision.APPROVED, note, timezone.now())


def refuse(*, approval: Approval, actor: User, note: str) -> Approval:
    """Give every hold of the question back; the reason reaches who asked. Raises :class:`NoteMissing` without one."""
    if not note.strip():
        raise NoteMissing(_("Say why: the note is sent with your answer."), field="note")
    return _decided(approval, actor, Decision.REFUSED, note.strip(), timezone.now())


def expire_approvals(now: dt.datetime | None = None) -> int:
    """Questions that nobody answered in time are refused, and holds whose own window is over; returns how many."""
    now = now or timezone.now()
    late = Approval.objects.filter(decision="", expires_at__lte=now).order_by("expires_at")[:MOST_ROWS]
    count = sum(_expired(approval, now) for approval in late)
    held = Reservation.objects.filter(Q(hold_expires_at__lte=now) | Q(during__endswith__lte=now), state=State.REQUESTED)
    left = held.order_by("pk").select_related("pool")[:MOST_ROWS]
    return count + sum(_let_go(reservation, now) for reservation in left)


def _expired(approval: Approval, now: dt.datetime) -> bool:
    try:
        _decided(approval, None, Decision.EXPIRED, "", now)
    except StateConflict:  # a lead was first
        return False
    except Busy as busy:
        log.warning("approval %s: %s The next pass tries again.", approval.pk, busy)
        return False
    return True


def _let_go(reservation: Reservation, now: dt.datetime) -> bool:
    """Its own window is over although the question, about others too, is open; or it was left behind by its answer."""
    try:
        return retried(reservation.pool, lambda: _give_back_alone(reservation, now))
    except Busy as busy:
        log.warning("%s: %s The next pass tries again.", reservation.number, busy)
        return False


def _give_back_alone(reservation: Reservation, now: dt.datetime) -> bool:
    lock_pool(reservation.pool_id)
    held = _lock_held(Reservation.objects.filter(pk=reservation.pk))
    for one in held:
        if _give_back(one, None, Decision.EXPIRED, "", now):
            _tell(one, None, Decision.EXPIRED, "")
    return bool(held)


def _decided(approval: Approval, actor: User | None, decision: Decision, note: str, now: dt.datetime) -> Approval:
    pools = list(Pool.objects.filter(reservations__approval=approval).distinct().order_by("pk"))
    if not pools:
        raise StateConflict(_already(approval))
    return retried(pools[0], lambda: _decide(approval, pools, actor, decision, note, now))


def _decide(
    approval: Approval, pools: list[Pool], actor: User | None, decision: Decision, note: str, now: dt.datetime
) -> Approval:
    """Locks the pools of what is held, then the leases, the reservations and their nodes."""
    for pool in pools:
        lock_pool(pool.pk)
    decided = Approval.objects.filter(pk=approval.pk, decision="")
    if decision == Decision.APPROVED:
        decided = decided.filter(expires_at__gt=now)
    if not decided.update(decision=decision, decided_by=actor, decided_at=now, note=note[:500]):
        raise StateConflict(_already(approval))
    asked = Reservation.objects.filter(approval=approval)
    held = _lock_held(asked)
    if decision == Decision.APPROVED:
        lock_nodes(Lease.objects.filter(reservation__in=held, state__in=LIVE).values_list("gpu_id", flat=True))
    answered = [one for one in held if _answer(one, actor, decision, note, now)]
    for reservation in _firsts(answered):
        _tell(reservation, actor, decision, note)
    settle(kind=Kind.APPROVAL_WANTED, reservation_ids=asked.values_list("pk", flat=True))
    approval.refresh_from_db()
    return approval


def _answer(reservation: Reservation, actor: User | None, decision: Decision, note: str, now: dt.datetime) -> bool:
    if decision == Decision.APPROVED:
        return _confirm(reservation, actor, now)
    return _give_back(reservation, actor, decision, note, now)


def _firsts(reservations: list[Reservation]) -> list[Reservation]:
    """Of a series, the first of each person: they are told once of all."""
    first = {(one.series_id, one.owner_id): one for one in reversed(reservations)}
    return [one for one in reservations if one.series_id is None or first[one.series_id, one.owner_id] is one]


def _lock_held(reservations: QuerySet[Reservation]) -> list[Reservation]:
    """Those that are still held, under their locks: leases by id, then the reservations."""
    held = reservations.filter(state=State.REQUESTED)
    list(Lease.objects.select_for_update(no_key=True).filter(reservation__in=held).order_by("pk"))
    lock_reservations(held.values_list("pk", flat=True))
    return list(held.select_related("workload", "owner", "tenant", "pool").order_by("pk"))


def _already(approval: Approval) -> str:
    approval.refresh_from_db()
    if not approval.decision:
        return _("The time to decide is over: it ran until %(until)s.") % {
            "until": timezone.localtime(approval.expires_at).strftime("%Y-%m-%d %H:%M")
        }
    return _("This was decided already: %(decision)s.") % {"decision": approval.get_decision_display()}


def _confirm(reservation: Reservation, actor: User | None, now: dt.datetime) -> bool:
    guarded = Reservation.objects.filter(pk=reservation.pk, state=State.REQUESTED)
    if not guarded.update(state=State.CONFIRMED, hold_expires_at=None):
        return False
    reservation.state = State.CONFIRMED
    freeze_now(reservation, now)
    record_change(
        actor=actor, action="reservation.approved", subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"state": State.REQUESTED}, after={"state": State.CONFIRMED})  # fmt: skip
    return True


def _give_back(reservation: Reservation, actor: User | None, decision: Decision, note: str, now: dt.datetime) -> bool:
    withdraw_leases(list(Lease.objects.filter(reservation=reservation, state__in=LIVE).order_by("pk")))
    if not refuse_held(reservation, decision, now, note):
        return False
    touch_pool(reservation.pool_id)
    record_change(
        actor=actor, action=f"reservation.approval_{decision}", subject=reservation.number,
        tenant_id=reservation.tenant_id, before={"state": State.REQUESTED},
        after={"state": State.REFUSED, "note": note})  # fmt: skip
    return True


def _tell(reservation: Reservation, actor: User | None, decision: Decision, note: str) -> None:
    kind = {Decision.APPROVED: Kind.APPROVED, Decision.REFUSED: Kind.REFUSED}.get(decision, Kind.APPROVAL_EXPIRED)
    tell_owner(
        reservation, kind, by=str(actor or ""), note=note, starts_at=reservation.during.lower,
        ends_at=reservation.during.upper)  # fmt: skip
