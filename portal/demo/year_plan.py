"""Makes up a year of reservations on a calendar of GPUs: who asked for what, where it sat, how it ended. Pure, seeded.

Every reservation with a place keeps it for its whole window, so that no two of them ever meet on a slice.
"""

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.demo.year_fates import QUEUED, REQUESTED, Fate, fate_of
from portal.demo.year_times import asked_before, window_for
from portal.reservations.models import EndReason

SPARE = 1.15  # so many more are made up than are wanted, since some find no place
WHOLE_RANKS = (1, 1, 1, 1, 2, 2, 4, 8)
SLICE_RANKS = (1, 1, 1, 1, 1, 1, 1, 2, 4)
BUSY = (0.04, 0.2, 0.45, 0.7, 0.85, 0.95)

Place = tuple[int, int]


class YearTooFull(ValueError):
    """The machines have no room for so many reservations."""


@dataclass(frozen=True)
class Shape:
    """A profile as the driver reported it; ``starts`` are its legal first slices."""

    profile_id: int
    size: int
    starts: tuple[int, ...]
    weight: int


@dataclass(frozen=True)
class Asker:
    """A person in a tenant where they may reserve; ``pool_ids`` are those the tenant has a quota in."""

    user_id: int
    tenant_id: int
    zone: str
    pool_ids: tuple[int, ...]


@dataclass(frozen=True)
class Park:
    """A pool: its shapes and its GPUs, by id with their height in slices."""

    pool_id: int
    shapes: tuple[Shape, ...]
    gpus: tuple[tuple[int, int], ...]

    @property
    def whole(self) -> bool:
        return len(self.shapes) == 1


@dataclass(frozen=True)
class Use:
    """One reservation. ``places`` are (GPU, first slice), one a rank, and () for what never had any; ``opened`` and
    ``closed`` bound what was held, ``opened`` None for what never ran; ``busy`` is a share of 1."""

    asker: Asker
    pool_id: int
    shape: Shape
    ranks: int
    places: tuple[Place, ...]
    asked_at: dt.datetime
    start: dt.datetime
    end: dt.datetime
    fate: Fate
    opened: dt.datetime | None
    closed: dt.datetime | None
    busy: float

    @property
    def weight(self) -> int:
        return self.shape.weight * self.ranks


def make_year(
    askers: Sequence[Asker], parks: Mapping[int, Park], count: int, now: dt.datetime, chance: random.Random
) -> list[Use]:
    """Exactly ``count`` reservations in the order in which they were asked for; the same for the same arguments."""
    wishes = []
    for _ in range(int(count * SPARE) + 50):
        asker = chance.choice(askers)
        wishes.append((*window_for(asker.zone, now, chance), asker))
    wishes.sort(key=lambda wish: wish[:2])
    calendar = {pool_id: _Calendar(park) for pool_id, park in parks.items()}
    found = []
    for number, (start, end, asker) in enumerate(wishes):
        fate = fate_of(number, start, end, now, chance)
        if use := _use(asker, fate, start, end, calendar, now, chance):
            found.append(use)
    if len(found) < count:
        raise YearTooFull(f"Only {len(found)} of {count} reservations found a place.")
    kept = [use for use in found if use.fate in (REQUESTED, QUEUED)]
    others = [use for use in found if use.fate not in (REQUESTED, QUEUED)]
    kept += chance.sample(others, count - len(kept))
    return sorted(kept, key=lambda use: (use.asked_at, use.start, use.asker.user_id))


def _use(
    asker: Asker,
    fate: Fate,
    start: dt.datetime,
    end: dt.datetime,
    calendar: Mapping[int, "_Calendar"],
    now: dt.datetime,
    chance: random.Random,
) -> Use | None:
    """The first of the asker's pools in a random order that has room, or None."""
    for pool_id in chance.sample(asker.pool_ids, len(asker.pool_ids)):
        park = calendar[pool_id].park
        shape = chance.choice(park.shapes)
        ranks = chance.choice(WHOLE_RANKS if park.whole else SLICE_RANKS)
        places = calendar[pool_id].take(shape, ranks, start, end) if fate.has_place else ()
        if places or not fate.has_place:
            break
    else:
        return None
    opened, closed = _held(fate, start, end, now, chance)
    asked_at = asked_before(start, now, chance)
    busy = chance.choice(BUSY)
    return Use(asker, pool_id, shape, ranks, places, asked_at, start, end, fate, opened, closed, busy)


def _held(
    fate: Fate, start: dt.datetime, end: dt.datetime, now: dt.datetime, chance: random.Random
) -> tuple[dt.datetime | None, dt.datetime | None]:
    """A start takes some seconds; what ended before its window's end did so somewhere in between."""
    if not fate.ran:
        return None, None
    opened = min(start + dt.timedelta(seconds=chance.randint(2, 40)), max(start, now - dt.timedelta(seconds=1)))
    if not fate.is_over:
        return opened, None
    if fate.end_reason == EndReason.COMPLETED and chance.random() < 0.7:
        return opened, end
    last = min(end, now)
    return opened, (opened + (last - opened) * chance.uniform(0.2, 0.95)).replace(microsecond=0)


class _Calendar:
    """The GPUs of a pool while windows are taken in the order of their starts: what has ended is forgotten."""

    def __init__(self, park: Park) -> None:
        self.park = park
        self._held: dict[int, list[tuple[dt.datetime, int]]] = {gpu_id: [] for gpu_id, _ in park.gpus}

    def take(self, shape: Shape, ranks: int, start: dt.datetime, end: dt.datetime) -> tuple[Place, ...]:
        """A place for each rank, fullest GPU first, or () and nothing taken."""
        taken = {gpu_id: self._taken(gpu_id, start) for gpu_id, _ in self.park.gpus}
        places: list[Place] = []
        heights = dict(self.park.gpus)
        for gpu_id in sorted(taken, key=lambda gpu_id: (-taken[gpu_id].bit_count(), gpu_id)):
            for first in shape.starts:
                mask = ((1 << shape.size) - 1) << first
                if len(places) < ranks and first + shape.size <= heights[gpu_id] and not taken[gpu_id] & mask:
                    taken[gpu_id] |= mask
                    places.append((gpu_id, first))
        if len(places) < ranks:
            return ()
        for gpu_id, first in places:
            self._held[gpu_id].append((end, ((1 << shape.size) - 1) << first))
        return tuple(places)

    def _taken(self, gpu_id: int, start: dt.datetime) -> int:
        self._held[gpu_id] = [(end, mask) for end, mask in self._held[gpu_id] if end > start]
        found = 0
        for _, mask in self._held[gpu_id]:
            found |= mask
        return found
