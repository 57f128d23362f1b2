"""Giving back: cancel before the start, release early after it. One object, whatever its number of leases."""

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.notices.models import Kind
from portal.reservations.booking import lock_pool, retried
from portal.reservations.ending import (
    MOVED,
    WITHDRAWABLE,
    close_reservation,
    end_question,
    lock_reservations,
    withdraw_leases,
)
from portal.reservations.errors import StateConflict
from portal.reservations.models import UNDER_WAY, Decision, Lease, LeaseState, Reservation, State, Wait
from portal.reservations.rebinding import touch_pool
from portal.reservations.telling import tell_owner, tell_pages

UNBOUND = (State.REQUESTED, State.QUEUED)


def release_reservation(*, reservation: Reservation, actor: User) -> Reservation:
    """Give everything back: cancelled when no lease has started, else stopped now and ended once the agent says free.

    Locks the pool, then the leases by id, then the reservation. Doing it twice is refused as a conflict with the state
    it is in.
    """
    return retried(reservation.pool, lambda: _release(reservation, actor))


def _release(reservation: Reservation, actor: User) -> Reservation:
    reservation, leases = lock_whole(reservation)
    if reservation.state not in UNDER_WAY or not _has_something_to_give(reservation, leases):
        raise StateConflict(already(reservation))
    before = reservation.state
    withdraw_leases(leases)
    started = any(map(_has_started, leases))
    record_change(
        actor=actor,
        action="reservation.released" if started else "reservation.cancelled",
        subject=reservation.number,
        tenant_id=reservation.tenant_id,
        before={"state": before},
    )
    if not started:
        _cancel(reservation)
    close_reservation(reservation.pk)
    touch_pool(reservation.pool_id)
    if actor.pk != reservation.owner_id:
        tell_owner(reservation, Kind.CANCELLED, by=str(actor))
    tell_pages(reservation)
    reservation.refresh_from_db()
    return reservation


def lock_whole(reservation: Reservation) -> tuple[Reservation, list[Lease]]:
    """The reservation as it is under the locks of its pool, its leases by id and itself, in this order.

    Leases that a move has left behind are not among them.
    """
    lock_pool(reservation.pool_id)
    rows = Lease.objects.select_for_update(no_key=True).filter(reservation=reservation).exclude(end_reason=MOVED)
    leases = list(rows.order_by("pk"))
    lock_reservations([reservation.pk])
    related = ("tenant", "pool", "profile", "owner", "workload", "created_by")
    return Reservation.objects.select_related(*related).get(pk=reservation.pk), leases


def already(reservation: Reservation) -> str:
    """Why nothing can be changed any more, in one sentence."""
    state = _("being stopped") if reservation.state in UNDER_WAY else reservation.get_state_display()
    return _("%(number)s is %(state)s already.") % {"number": reservation.number, "state": state}


def _has_something_to_give(reservation: Reservation, leases: list[Lease]) -> bool:
    return reservation.state in UNBOUND or any(lease.state in WITHDRAWABLE for lease in leases)


def _has_started(lease: Lease) -> bool:
    """A lease that ended without a start was only held: for an answer, or as an offer."""
    return lease.starting_at is not None or lease.state not in (LeaseState.PLANNED, LeaseState.ENDED)


def _cancel(reservation: Reservation) -> None:
    """Nothing ran. A question about it alone is withdrawn with it; its place in the queue is given up."""
    now = timezone.now()
    mine = Reservation.objects.filter(pk=reservation.pk, state__in=[State.CONFIRMED, *UNBOUND])
    mine.update(state=State.CANCELLED, hold_expires_at=None, ended_at=now)
    Wait.objects.filter(reservation=reservation).delete()
    end_question(reservation, Decision.WITHDRAWN)
