"""What owners are told when GPUs go out of service under their reservations."""

import datetime as dt

from django.urls import reverse

from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.maintenance_closing import Closing, Fate
from portal.reservations.models import Reservation
from portal.reservations.telling import tell_pages


def tell_effect(
    reservation: Reservation,
    fate: Fate,
    closing: Closing,
    *,
    ends_at: dt.datetime | None = None,
    rest: Reservation | None = None,
    once: str | None = None,
) -> None:
    """Where the reservation stays without a place, the notice leads to its ways on."""
    facts: dict = {"what": closing.what, "reason": closing.reason, "fate": str(fate), "name": reservation.workload.name}
    if not closing.for_good:
        facts |= {"starts_at": closing.during.lower, "ends_at": closing.during.upper}
    if ends_at is not None:
        facts["cut_at"] = ends_at
    if rest is not None:
        facts["rest"] = rest.number
    notify(
        users=[reservation.owner_id], kind=Kind.MAINTENANCE, reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id, once=once,
        url=reverse("maintenance_ways", args=[reservation.pk]) if fate == Fate.STAYS else "", **facts)  # fmt: skip
    tell_pages(reservation)
