"""Approval of what costs more than a tenant's threshold: the place is held until a lead has decided, or the time is up.

One question may be about many reservations: a series or a class is decided as one.
"""

import datetime as dt

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Pool
from portal.notices.models import Kind
from portal.quotas.policies import policy_of
from portal.reservations.ending import withdraw_leases
from portal.reservations.errors import StateConflict
from portal.reservations.models import LIVE, Approval, Decision, Lease, Reservation, State
from portal.reservations.rebinding import freeze_now, touch_pool
from portal.reservations.request import Request, price_of
from portal.reservations.telling import tell_owner
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may

MOST_ROWS = 200
# A hold is never shorter, so that a lead has a chance to answer what is wanted at once.
SHORTEST_HOLD = dt.timedelta(hours=1)


def approval_needed(request: Request, during: DateTimeTZRange, now: dt.datetime) -> Approval | None:
    """A question to the leads when the price is above the tenant's threshold and no lead asks, stored; else None."""
    return ask_approval(request.created_by, request.tenant, price_of(request, during), during, now)


def ask_approval(
    asker: User, tenant: Tenant, price_slice_seconds: int, during: DateTimeTZRange, now: dt.datetime
) -> Approval | None:
    """``during`` is the first window that hangs on the answer: the question never outlives it."""
    threshold = policy_of(tenant).approval_above_slice_seconds
    if threshold is None or price_slice_seconds <= threshold or may(asker, tenant, Role.LEAD):
        return None
    latest = min(now + settings.APPROVAL_EXPIRES_AFTER, max(during.lower, now + SHORTEST_HOLD), during.upper)
    return Approval.objects.create(
        tenant=tenant, asked_by=asker, asked_at=now, expires_at=latest,
        price_slice_seconds=price_slice_seconds, threshold_slice_seconds=threshold)  # fmt: skip


def approve(*, approval: Approval, actor: User, note: str = "") -> Approval:
    """Turn every hold of the question into a promise. Raises :class:`StateConflict` when it is decided already."""
    return _decide(approval, actor, Decision.APPROVED, note, timezone.now())


def refuse(*, approval: Approval, actor: User, note: str) -> Approval:
    """Give every hold of the question back; the reason reaches who asked."""
    return _decide(approval, actor, Decision.REFUSED, note, timezone.now())


def expire_approvals(now: dt.datetime | None = None) -> int:
    """Questions that nobody answered in time are refused; returns how many."""
    now = now or timezone.now()
    late = Approval.objects.filter(decision="", expires_at__lte=now).order_by("expires_at")[:MOST_ROWS]
    count = 0
    for approval in late:
        try:
            _decide(approval, None, Decision.EXPIRED, "", now)
            count += 1
        except StateConflict:  # a lead was first
            continue
    return count


@transaction.atomic
def _decide(approval: Approval, actor: User | None, decision: Decision, note: str, now: dt.datetime) -> Approval:
    """Locks the pools of what is held, then the leases, then the reservations."""
    held = Reservation.objects.filter(approval=approval, state=State.REQUESTED)
    pool_ids = sorted(set(held.values_list("pool_id", flat=True)))
    list(Pool.objects.select_for_update(no_key=True).filter(pk__in=pool_ids).order_by("pk"))
    decided = Approval.objects.filter(pk=approval.pk, decision="")
    if decision == Decision.APPROVED:
        decided = decided.filter(expires_at__gt=now)
    if not decided.update(decision=decision, decided_by=actor, decided_at=now, note=note[:500]):
        raise StateConflict(_already(approval))
    rows = held.select_related("workload", "owner", "tenant").order_by("pk")
    for reservation in rows.select_for_update(no_key=True, of=("self",)):
        if decision == Decision.APPROVED:
            _confirm(reservation, actor, now)
        else:
            _give_back(reservation, actor, decision, note, now)
    approval.refresh_from_db()
    return approval


def _already(approval: Approval) -> str:
    approval.refresh_from_db()
    if not approval.decision:
        return _("The time to decide is over: it ran until %(until)s.") % {
            "until": timezone.localtime(approval.expires_at).strftime("%Y-%m-%d %H:%M")
        }
    return _("This was decided already: %(decision)s.") % {"decision": approval.get_decision_display()}


def _confirm(reservation: Reservation, actor: User | None, now: dt.datetime) -> None:
    guarded = Reservation.objects.filter(pk=reservation.pk, state=State.REQUESTED)
    if not guarded.update(state=State.CONFIRMED, hold_expires_at=None):
        return
    reservation.state = State.CONFIRMED
    freeze_now(reservation, now)
    record_change(
        actor=actor, action="reservation.approved", subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"state": State.REQUESTED}, after={"state": State.CONFIRMED})  # fmt: skip
    tell_owner(
        reservation, Kind.APPROVED, by=str(actor), starts_at=reservation.during.lower,
        ends_at=reservation.during.upper)  # fmt: skip


def _give_back(
    reservation: Reservation, actor: User | None, decision: Decision, note: str, now: dt.datetime
) -> None:
    leases = Lease.objects.select_for_update(no_key=True).filter(reservation=reservation, state__in=LIVE)
    withdraw_leases(list(leases.order_by("pk")))
    guarded = Reservation.objects.filter(pk=reservation.pk, state=State.REQUESTED)
    if not guarded.update(state=State.REFUSED, hold_expires_at=None, ended_at=now, end_detail=note[:500]):
        return
    touch_pool(reservation.pool_id)
    record_change(
        actor=actor, action=f"reservation.approval_{decision}", subject=reservation.number,
        tenant_id=reservation.tenant_id, before={"state": State.REQUESTED},
        after={"state": State.REFUSED, "note": note})  # fmt: skip
    kind = Kind.REFUSED if decision == Decision.REFUSED else Kind.APPROVAL_EXPIRED
    tell_owner(reservation, kind, by=str(actor or ""), note=note)
