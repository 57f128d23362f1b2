"""Who is told when a reservation changes: the open pages at once, and people in their inbox and by e-mail."""

import datetime as dt
from typing import Any

from django.conf import settings

from portal import events
from portal.accounts.models import User
from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.models import Reservation, State
from portal.tenants.models import Membership, Role, Tenant


def tell_pages(reservation: Reservation) -> None:
    events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)


def tell_owner(reservation: Reservation, kind: Kind, **facts: Any) -> None:
    """A notice to the owner, and the open pages. What is shown of it is formatted when it is read."""
    notify(
        users=[reservation.owner_id], kind=kind, reservation_id=reservation.pk, tenant_id=reservation.tenant_id,
        name=reservation.workload.name, **facts)  # fmt: skip
    tell_pages(reservation)


def tell_booked(reservation: Reservation, now: dt.datetime) -> None:
    """Confirmed ones that start within the hour need no letter: who booked sees it run. A request goes to the leads."""
    if reservation.state == State.REQUESTED:
        ask_leads(reservation)
        tell_pages(reservation)
    elif reservation.during.lower > now + settings.CONFIRM_BY_NOTICE_AFTER or (
        reservation.owner_id != reservation.created_by_id
    ):
        tell_owner(
            reservation, Kind.CONFIRMED, starts_at=reservation.during.lower,
            ends_at=reservation.during.upper)  # fmt: skip
    else:
        tell_pages(reservation)


def ask_leads(reservation: Reservation) -> None:
    notify(
        users=leads_of(reservation.tenant), kind=Kind.APPROVAL_WANTED, reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id, name=reservation.workload.name, by=str(reservation.created_by),
        price_slice_seconds=reservation.price_slice_seconds,
        expires_at=reservation.hold_expires_at or reservation.during.lower)  # fmt: skip


def leads_of(tenant: Tenant) -> list[User]:
    """Who decides for the tenant: its own leads and admins, or those of the nearest tenant above that has any."""
    rows = Membership.objects.filter(
        tenant_id__in=tenant.ancestor_ids, role__in=[Role.LEAD, Role.ADMIN], user__is_active=True
    ).select_related("user", "tenant")
    nearest = max((row.tenant.path for row in rows), key=len, default="")
    return [row.user for row in rows if row.tenant.path == nearest]
