"""Where each request that waits would start, and the one reason why not before.

A candidate is every moment at which something may become possible. What stands in the way at the last of them before
the estimated start is the dominant reason: the last thing that clears.
"""

import bisect
import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from django.conf import settings
from psycopg2.extras import DateTimeTZRange

from portal.reservations.closures import MAINTENANCE
from portal.reservations.errors import BudgetExceeded, NoAccess, PolicyRefused, QuotaExceeded, ReservationRefused
from portal.reservations.models import Reservation
from portal.reservations.queue_board import Board, Layer
from portal.reservations.selectors import shape_of, window_of
from scheduler.placement.earliest import counts_at
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import GpuView, Placement, disjoint_count, free_count

Evidence = dict[str, int | str | None]

MOST_STARTS = 300
FEW_AT_FIRST, MOST_AT_ONCE = 4, 32


class Waits(StrEnum):
    """Why a request waits."""

    NO_ROOM = "no_room"
    NO_DEVICE = "no_device"
    MAINTENANCE = "maintenance"
    BEHIND = "behind"
    LIMIT = "limit"
    BUDGET = "budget"
    PERSON = "person"
    HOURS = "hours"
    NO_ACCESS = "no_access"
    POLICY = "policy"
    NOT_BEFORE = "not_before"
    DISPLACED = "displaced"
    OFFERED = "offered"
    CROWDED_OUT = "crowded_out"


@dataclass(frozen=True)
class Planned:
    """``during`` None: no start was found before it gives up. ``evidence`` holds numbers, names and ISO times."""

    reservation: Reservation
    during: DateTimeTZRange | None
    placements: tuple[Placement, ...] = ()
    reason: str = ""
    evidence: Evidence = field(default_factory=dict)


def plan_of(board: Board, reservation: Reservation) -> Planned:
    """Its earliest place beside all that is held and all that is planned for those ahead; adds nothing to the board."""
    return _exactly(board, reservation) if reservation.wait.fixed else _as_soon_as_possible(board, reservation)


def _as_soon_as_possible(board: Board, reservation: Reservation) -> Planned:
    first = max(board.now, _whole(reservation.wait.not_before))
    blocked = None
    for start, count in _candidates(board, reservation, first):
        during = _window(start, reservation.wait.seconds)
        if count >= reservation.ranks and board.refusal(board.planned, reservation, during) is None:
            reason, evidence = "", Evidence()
            if blocked is not None:
                reason, evidence = why(board, reservation, blocked)
            elif first > board.now:
                reason = Waits.NOT_BEFORE
            evidence |= {"until": during.lower.isoformat()} if reason else {}
            return Planned(reservation, during, _places(board, reservation, during), reason, evidence)
        blocked = during
    reason, evidence = why(board, reservation, blocked or _window(int(first.timestamp()), reservation.wait.seconds))
    return Planned(reservation, None, (), reason, evidence | {"until": None})


def _exactly(board: Board, reservation: Reservation) -> Planned:
    """The window it waits for, or what is left of it."""
    during = DateTimeTZRange(max(reservation.during.lower, board.now), reservation.during.upper, "[)")
    if _fits(board, board.planned, reservation, during):
        return Planned(reservation, during, _places(board, reservation, during))
    return Planned(reservation, None, (), *why(board, reservation, during))


def why(board: Board, reservation: Reservation, during: DateTimeTZRange) -> tuple[str, Evidence]:
    """What stands in the way of a window that it did not get."""
    held, ranks = board.held, reservation.ranks
    if board.ahead and _fits(board, held, reservation, during):
        return Waits.BEHIND, {"ahead": board.ahead}
    shape, window = shape_of(reservation.profile), window_of(during)
    if free_count(shape, held.gpus, window) < ranks:
        at_most = sum(disjoint_count(shape, gpu.slices, 0) for gpu in held.gpus)
        if at_most < ranks:
            return Waits.NO_DEVICE, {"at_most": at_most, "ranks": ranks}
        in_service = free_count(shape, [_in_service(gpu) for gpu in held.gpus], window) >= ranks
        return (Waits.MAINTENANCE if in_service else Waits.NO_ROOM), {}
    refusal = board.refusal(held, reservation, during)
    return (Waits.CROWDED_OUT, {}) if refusal is None else reason_of(refusal)


def reason_of(refusal: ReservationRefused) -> tuple[str, Evidence]:
    """A refusal as a reason for waiting, with its numbers."""
    evidence: Evidence = {**refusal.evidence}
    if isinstance(refusal, QuotaExceeded):
        return Waits.LIMIT, evidence
    if isinstance(refusal, BudgetExceeded):
        return Waits.BUDGET, evidence
    if isinstance(refusal, NoAccess):
        return Waits.NO_ACCESS, evidence
    if isinstance(refusal, PolicyRefused) and "most" in evidence:
        return Waits.PERSON, evidence
    if isinstance(refusal, PolicyRefused) and "hours" in evidence:
        return Waits.HOURS, evidence
    return Waits.POLICY, evidence


def latest_start(board: Board, reservation: Reservation) -> dt.datetime:
    """A place that begins by then is bound, one that begins later is only an estimate."""
    ahead = board.policies[reservation.tenant_id].book_ahead_seconds
    limits = [settings.FREEZE_HORIZON, dt.timedelta(seconds=board.pool.book_ahead_seconds)]
    return board.now + min(limits if ahead is None else [*limits, dt.timedelta(seconds=ahead)])


def _candidates(board: Board, reservation: Reservation, first: dt.datetime) -> Iterator[tuple[int, int]]:
    """(second, how many instances fit from then on), in order, worked out a few at a time.

    What was found full for a request of the same shape is not looked at again, but for the last such moment.
    """
    seconds, ranks = reservation.wait.seconds, reservation.ranks
    begin, from_now = int(first.timestamp()), first <= board.now
    last = int(min(reservation.wait.give_up_at, board.until - dt.timedelta(seconds=seconds)).timestamp())
    moments = sorted({begin, *(at for at in board.turning_points(reservation) if begin < at <= last)})
    shape, gpus = shape_of(reservation.profile), board.planned.gpus
    key = (shape.name, seconds, ranks)
    known = board.room_from.get(key, begin)
    moments = moments[max(0, bisect.bisect_left(moments, known) - 1) :][:MOST_STARTS]
    place, many = 0, FEW_AT_FIRST
    while some := moments[place : place + many]:
        place, many = place + many, min(2 * many, MOST_AT_ONCE)
        for at, count in zip(some, counts_at(shape, gpus, seconds, some), strict=True):
            if from_now and count >= ranks and at >= known:
                board.room_from[key], from_now = at, False
            yield at, count


def _fits(board: Board, layer: Layer, reservation: Reservation, during: DateTimeTZRange) -> bool:
    free = free_count(shape_of(reservation.profile), layer.gpus, window_of(during))
    return free >= reservation.ranks and board.refusal(layer, reservation, during) is None


def _places(board: Board, reservation: Reservation, during: DateTimeTZRange) -> tuple[Placement, ...]:
    shape = shape_of(reservation.profile)
    return place_gang(shape, reservation.ranks, board.planned.gpus, window_of(during), board.shapes)


def _in_service(gpu: GpuView) -> GpuView:
    return replace(gpu, held=tuple(held for held in gpu.held if held.shape != MAINTENANCE))


def _window(start: int, seconds: int) -> DateTimeTZRange:
    begin = dt.datetime.fromtimestamp(start, dt.UTC)
    return DateTimeTZRange(begin, begin + dt.timedelta(seconds=seconds), "[)")


def _whole(at: dt.datetime) -> dt.datetime:
    return dt.datetime.fromtimestamp(math.ceil(at.timestamp()), dt.UTC)
