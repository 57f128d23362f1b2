"""A plan that is only shown: which planned leases would move where, so that more of a shape fit in a window."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import Placement, Shape, Window
from scheduler.placement.placing import Board, table_on
from scheduler.placement.replan import Admission, admit
from scheduler.placement.trial import Move

# With so much room nobody needs a plan.
ROOM_MOST = 64
# More than this nobody reads, and it may be another by the time it is applied.
MORE_MOST = 16


@dataclass(frozen=True)
class MovePlan:
    """``bookable``: how many fit without it; ``won``: how many more fit once all ``moves`` are made at once."""

    bookable: int
    won: int
    moves: tuple[Move, ...] = ()
    placements: tuple[Placement, ...] = ()


def plan_to_win(
    shape: Shape, more: int, calendar: Calendar, window: Window, shapes: Iterable[Shape], *, deadline_seconds: float
) -> MovePlan:
    """Moves by which up to ``more`` of the shape fit beside those that fit already; the calendar is left as it was.
    What is not movable stays. Asks for all of them first, then for half as many, down to one."""
    known = tuple(shapes)
    bookable = int(Board(table_on(calendar, shape, known), calendar, window).room.sum())
    wanted = min(more, MORE_MOST) if bookable <= ROOM_MOST else 0
    while wanted > 0:
        answer = admit(shape, bookable + wanted, calendar, window, known, deadline_seconds=deadline_seconds)
        if isinstance(answer, Admission):
            return MovePlan(bookable, wanted, answer.moves, answer.placements)
        wanted //= 2
    return MovePlan(bookable, 0)
