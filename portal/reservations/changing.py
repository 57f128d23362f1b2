"""Giving back: cancel before the start, release early after it. One object, whatever its number of leases."""

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Pool
from portal.reservations.booking import lock_pool
from portal.reservations.ending import WITHDRAWABLE, close_reservation, lock_reservations, withdraw_leases
from portal.reservations.errors import StateConflict
from portal.reservations.models import OPEN, Lease, LeaseState, Reservation, State


def release_reservation(*, reservation: Reservation, actor: User) -> Reservation:
    """Give everything back: cancelled when no lease has started, else stopped now and ended once the agent says free.

    Locks the pool, then the leases by id, then the reservation. Doing it twice is refused as a conflict with the state
    it is in.
    """
    with transaction.atomic():
        lock_pool(reservation.pool_id)
        leases = list(Lease.objects.select_for_update(no_key=True).filter(reservation=reservation).order_by("pk"))
        lock_reservations([reservation.pk])
        reservation = Reservation.objects.select_related("tenant").get(pk=reservation.pk)
        if reservation.state not in OPEN or not any(lease.state in WITHDRAWABLE for lease in leases):
            state = _("being stopped") if reservation.state in OPEN else reservation.get_state_display()
            raise StateConflict(_("%(number)s is %(state)s already.") % {"number": reservation.number, "state": state})
        before = reservation.state
        withdraw_leases(leases)
        started = any(lease.state != LeaseState.PLANNED for lease in leases)
        record_change(
            actor=actor,
            action="reservation.released" if started else "reservation.cancelled",
            subject=reservation.number,
            tenant_id=reservation.tenant_id,
            before={"state": before},
        )
        if not started:
            Reservation.objects.filter(pk=reservation.pk, state=State.CONFIRMED).update(
                state=State.CANCELLED, ended_at=timezone.now()
            )
        close_reservation(reservation.pk)
        Pool.objects.filter(pk=reservation.pool_id).update(revision=F("revision") + 1)
        events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)
    reservation.refresh_from_db()
    return reservation
