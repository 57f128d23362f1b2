"""Why a request was refused: one code for programs, one sentence with numbers for people, and ways on."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.reservations.availability import Alternative


@dataclass(eq=False)
class ReservationRefused(Exception):
    """Nothing was stored. ``message`` is translated, ``evidence`` holds the numbers, ``field`` the form's field."""

    message: str
    evidence: Mapping[str, int | str] = field(default_factory=dict)
    alternatives: "tuple[Alternative, ...]" = ()
    field: str = ""

    code = "refused"
    status = 409

    def __str__(self) -> str:
        return self.message


class NoAccess(ReservationRefused):
    code = "no_access"


class WindowRefused(ReservationRefused):
    code = "window_refused"
    status = 422


@dataclass(eq=False)
class HourUnclear(WindowRefused):
    """A local time that exists ``twice`` or not at all. ``readings`` are the instants that may be meant, in order."""

    readings: tuple[dt.datetime, ...] = ()
    twice: bool = False

    code = "hour_unclear"


class ProfileUnknown(ReservationRefused):
    code = "profile_unknown"
    status = 422


class CountRefused(ReservationRefused):
    code = "count_refused"
    status = 422


class GroupRefused(ReservationRefused):
    """What is asked for cannot work as one group."""

    code = "group_refused"
    status = 422


class NodeRefused(ReservationRefused):
    """The one node that will do has nothing of the pool."""

    code = "node_refused"
    status = 422


class WorkloadRefused(ReservationRefused):
    code = "workload_refused"
    status = 422


class QuotaExceeded(ReservationRefused):
    code = "quota_exceeded"


class BudgetExceeded(ReservationRefused):
    code = "budget_exceeded"


class PolicyRefused(ReservationRefused):
    """A rule of the tenant, or of one above it, does not allow this."""

    code = "policy_refused"


class NoCapacity(ReservationRefused):
    code = "no_capacity"


class StateConflict(ReservationRefused):
    code = "state_conflict"


class HasStarted(StateConflict):
    """It cannot be cancelled any more; releasing it is possible."""


class NoteMissing(ReservationRefused):
    """A lead's no without a reason."""

    code = "note_missing"
    status = 422


class IdempotencyConflict(ReservationRefused):
    code = "idempotency_conflict"


class Busy(ReservationRefused):
    """The pool's lock was not had in time; trying again is right."""

    code = "busy"
    status = 503
