"""The waitlist of a taken window: freed time is offered to the first in order, with a deadline, then to the next.

An offer is a hold: the leases are bound and no agent is told of them. It ends in one of three ways, and whoever comes
first under the pool's lock decides: taken, declined, or lapsed.
"""

import datetime as dt

from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Pool, Profile
from portal.notices.models import Kind
from portal.reservations.booking import lock_pool, retried
from portal.reservations.changing import lock_whole
from portal.reservations.ending import withdraw_leases
from portal.reservations.errors import StateConflict
from portal.reservations.models import LIVE, Lease, Reservation, State, Wait
from portal.reservations.questions import approval_needed
from portal.reservations.queue_binding import draft_of, end_wait
from portal.reservations.queue_serving import serve_under_lock
from portal.reservations.queueing import queue_request
from portal.reservations.rebinding import freeze_now, touch_pool
from portal.reservations.request import Request
from portal.reservations.telling import tell_booked, tell_owner, tell_pages
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft

MOST_LAPSES = 2
MOST_ROWS = 200


def join_waitlist(
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
    """Wait for exactly this window; confirmed at once where it is free after all. Raises ReservationRefused."""
    return queue_request(
        created_by=created_by, owner=owner, tenant=tenant, pool=pool, profile=profile, ranks=ranks,
        seconds=int((during.upper - during.lower).total_seconds()), workload=workload, fixed_window=during, key=key
    )  # fmt: skip


def accept_offer(*, reservation: Reservation, actor: User) -> Reservation:
    """Take what is offered: confirmed, or a question to the leads. Raises StateConflict when the offer is gone."""
    return retried(reservation.pool, lambda: _accept(reservation, actor))


def _accept(reservation: Reservation, actor: User) -> Reservation:
    reservation, _leases = lock_whole(reservation)
    now = timezone.now()
    _check_offered(reservation, now)
    request = Request(
        created_by=reservation.created_by, owner=reservation.owner, tenant=reservation.tenant, pool=reservation.pool,
        profile=reservation.profile, ranks=reservation.ranks, during=reservation.during,
        workload=draft_of(reservation.workload), instead_of=reservation)  # fmt: skip
    approval = approval_needed(request, reservation.during, now)
    state = State.REQUESTED if approval else State.CONFIRMED
    Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED).update(
        state=state, approval=approval, hold_expires_at=approval.expires_at if approval else None
    )
    Wait.objects.filter(reservation=reservation).delete()
    reservation.refresh_from_db()
    freeze_now(reservation, now)
    record_change(
        actor=actor, action="reservation.offer_accepted", subject=reservation.number,
        tenant_id=reservation.tenant_id, before={"state": State.QUEUED}, after={"state": state})  # fmt: skip
    tell_booked(reservation, now)
    return reservation


def decline_offer(*, reservation: Reservation, actor: User) -> Reservation:
    """Leave the waitlist; what was held goes to the next. Raises StateConflict when the offer is gone."""
    return retried(reservation.pool, lambda: _decline(reservation, actor))


def _decline(reservation: Reservation, actor: User) -> Reservation:
    reservation, leases = lock_whole(reservation)
    now = timezone.now()
    _check_offered(reservation, now)
    withdraw_leases([lease for lease in leases if lease.state in LIVE])
    touch_pool(reservation.pool_id)
    end_wait(reservation, "reservation.offer_declined", now, actor)
    tell_pages(reservation)
    serve_under_lock(reservation.pool, now)
    reservation.refresh_from_db()
    return reservation


def _check_offered(reservation: Reservation, now: dt.datetime) -> None:
    until = reservation.hold_expires_at
    if reservation.state != State.QUEUED or until is None or until <= now:
        raise StateConflict(
            _("Nothing is offered to %(number)s any more.") % {"number": reservation.number},
            {"state": reservation.state, "until": until.isoformat() if until else ""})  # fmt: skip


def lapse_offers(now: dt.datetime | None = None) -> int:
    """Take back offers that nobody took in time, and offer them to the next; returns how many."""
    now = now or timezone.now()
    late = Reservation.objects.filter(state=State.QUEUED, hold_expires_at__lte=now).order_by("hold_expires_at", "pk")
    rows = late.select_related("pool")[:MOST_ROWS]
    return sum(retried(row.pool, lambda row=row: _lapse(row, now)) for row in rows)  # type: ignore[misc]


def _lapse(reservation: Reservation, now: dt.datetime) -> bool:
    pool = lock_pool(reservation.pool_id)
    leases = Lease.objects.select_for_update(no_key=True).filter(reservation=reservation, state__in=LIVE)
    held = list(leases.order_by("pk"))
    mine = Reservation.objects.filter(pk=reservation.pk, state=State.QUEUED, hold_expires_at__lte=now)
    if not mine.update(hold_expires_at=None):
        return False  # taken or declined at the last moment
    reservation = Reservation.objects.select_related("wait", "workload", "owner", "tenant").get(pk=reservation.pk)
    withdraw_leases(held)
    touch_pool(pool.pk)
    wait = reservation.wait
    wait.offers_lapsed += 1
    Wait.objects.filter(pk=wait.pk).update(offers_lapsed=wait.offers_lapsed, reason="", evidence={})
    window = {"starts_at": reservation.during.lower, "ends_at": reservation.during.upper}
    if wait.offers_lapsed >= MOST_LAPSES:
        end_wait(reservation, "reservation.offer_lapsed", now)
    else:
        record_change(
            actor=None, action="reservation.offer_lapsed", subject=reservation.number,
            tenant_id=reservation.tenant_id, after={"offers_lapsed": wait.offers_lapsed})  # fmt: skip
    tell_owner(reservation, Kind.OFFER_LAPSED, **window)
    serve_under_lock(pool, now)
    return True
