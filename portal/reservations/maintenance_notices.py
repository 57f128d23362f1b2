"""What owners are told when GPUs go out of service under their reservations."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.urls import reverse

from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.maintenance_closing import Closing, Fate
from portal.reservations.models import Reservation
from portal.reservations.telling import tell_pages


def tell_moved(reservations: Iterable[Reservation], closing: Closing) -> None:
    """Who needs to do nothing is told once of all that is theirs; what needs an answer has a notice of its own."""
    owned: dict[int, list[Reservation]] = {}
    for reservation in reservations:
        owned.setdefault(reservation.owner_id, []).append(reservation)
    for owner_id, rows in owned.items():
        if len(rows) == 1:
            tell_effect(rows[0], Fate.MOVED, closing)
            continue
        facts = _facts(Fate.MOVED, closing) | {"number": len(rows)}
        address = f"{reverse('reservation_list')}?show=open"
        notify(users=[owner_id], kind=Kind.MAINTENANCE, tenant_id=rows[0].tenant_id, url=address, **facts)
        for reservation in rows:
            tell_pages(reservation)


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
    facts = _facts(fate, closing) | {"name": reservation.workload.name}
    if ends_at is not None:
        facts["cut_at"] = ends_at
    if rest is not None:
        facts["rest"] = rest.number
    notify(
        users=[reservation.owner_id], kind=Kind.MAINTENANCE, reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id, once=once,
        url=reverse("maintenance_ways", args=[reservation.pk]) if fate == Fate.STAYS else "", **facts)  # fmt: skip
    tell_pages(reservation)


def _facts(fate: Fate, closing: Closing) -> dict[str, Any]:
    facts: dict[str, Any] = {"what": closing.what, "reason": closing.reason, "fate": str(fate)}
    if not closing.for_good:
        facts |= {"starts_at": closing.during.lower, "ends_at": closing.during.upper}
    return facts
