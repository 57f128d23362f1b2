"""What the layout of a pool costs in a window, and which planned leases would move where to win more of a profile."""

import datetime as dt
from dataclasses import dataclass

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool, Profile
from portal.reservations.pool_calendar import PoolPicture, looking_at
from portal.reservations.selectors import shape_of, window_of
from scheduler.placement.defragment import plan_to_win
from scheduler.placement.fragmentation import Fragmentation, Refusal, cause_of, fragmentation
from scheduler.placement.geometry import Placement
from scheduler.placement.span_tables import SLICES_MOST
from scheduler.placement.trial import Move

# So long a plan may be looked for at a time; whoever books in the pool meanwhile waits.
PLAN_SECONDS = 0.1


@dataclass(frozen=True)
class LeaseMove:
    """A planned lease with where it lies and where it would lie, for the window that it has."""

    lease_id: int
    reservation_id: int
    before: Placement
    after: Placement


@dataclass(frozen=True)
class Plan:
    """For one profile: what fits already, what the moves would win, and why that is less than was asked for, if so."""

    profile: str
    asked: int
    bookable: int
    won: int
    moves: tuple[LeaseMove, ...]
    refusal: Refusal | None


@dataclass(frozen=True)
class Layout:
    broken: Fragmentation
    plan: Plan | None


def layout_of(pool: Pool, during: DateTimeTZRange, now: dt.datetime, profile: Profile | None, more: int) -> Layout:
    """One query while the picture of the pool is fresh. Nothing is moved or held by asking."""
    window = window_of(during)
    with looking_at(pool, now) as picture:
        shapes = picture.fleet.shapes
        views = [picture.calendar.view(gpu.pk, window) for gpu in picture.fleet.gpus]
        broken = fragmentation(views, window, shapes)
        if profile is None or not views or picture.fleet.slices > SLICES_MOST:
            return Layout(broken, None)
        shape = shape_of(profile)
        found = plan_to_win(shape, more, picture.calendar, window, shapes, deadline_seconds=PLAN_SECONDS)
        moves = tuple(_move(picture, move) for move in found.moves)
        refusal = cause_of(shape, found.bookable + more, views, window, shapes) if found.won < more else None
        return Layout(broken, Plan(profile.name, more, found.bookable, found.won, moves, refusal))


def _move(picture: PoolPicture, move: Move) -> LeaseMove:
    lease = picture.leases[move.key]
    before = Placement(0, lease.gpu_id, lease.start, lease.end)
    return LeaseMove(lease.key, lease.reservation_id, before, Placement(0, move.gpu_id, move.start, move.end))
