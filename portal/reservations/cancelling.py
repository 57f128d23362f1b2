"""Cancelling what has not started. What has can only be released, so that nobody ends running work by mistake."""

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.reservations.changing import lock_whole, release_reservation
from portal.reservations.errors import HasStarted
from portal.reservations.models import LeaseState, Reservation


@transaction.atomic
def cancel_reservation(*, reservation: Reservation, actor: User) -> Reservation:
    """Locks as a release does: the pool, then the leases by id, so that none starts in between."""
    reservation, leases = lock_whole(reservation)
    if any(lease.state in (LeaseState.STARTING, LeaseState.ACTIVE, LeaseState.STOPPING) for lease in leases):
        raise HasStarted(_("%(number)s has started: release it instead.") % {"number": reservation.number})
    return release_reservation(reservation=reservation, actor=actor)
