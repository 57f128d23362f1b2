"""Reservations, leases, and what they wait for."""

from portal.reservations.models.asking import Approval, Decision, Series, Wait
from portal.reservations.models.calendar import CalendarFeed, FeedKind
from portal.reservations.models.keeping import ChangeMark, IdempotencyKey, QuarantinedEvent
from portal.reservations.models.lease import Lease, LeaseLog
from portal.reservations.models.maintenance import Maintenance
from portal.reservations.models.reservation import Reservation
from portal.reservations.models.states import (
    BOUND,
    COUNTED,
    LIVE,
    MOVED,
    OPEN,
    RESTARTED,
    UNDER_WAY,
    EndReason,
    IsFinite,
    LeaseState,
    Lower,
    State,
    Upper,
)

__all__ = [
    "BOUND",
    "COUNTED",
    "LIVE",
    "MOVED",
    "OPEN",
    "RESTARTED",
    "UNDER_WAY",
    "Approval",
    "CalendarFeed",
    "ChangeMark",
    "Decision",
    "EndReason",
    "FeedKind",
    "IdempotencyKey",
    "IsFinite",
    "Lease",
    "LeaseLog",
    "LeaseState",
    "Lower",
    "Maintenance",
    "QuarantinedEvent",
    "Reservation",
    "Series",
    "State",
    "Upper",
    "Wait",
]
