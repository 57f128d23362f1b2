"""Makes up three weeks of use for the demo: which slices were held when, and how busy they were. Pure, seeded."""

import datetime as dt
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DAYS = 21
BUCKET_SECONDS = 300
FIRST_HOUR, LAST_HOUR = 6, 20  # of the day in UTC, when most windows lie
SHARE_OF_DAYS_USED = {True: 0.85, False: 0.25}  # weekday, weekend
SHARE_LEFT_FREE = 0.2
SHARE_RELEASED, SHARE_FAILED = 0.2, 0.04


@dataclass(frozen=True)
class Shape:
    """A profile as the driver reported it; ``starts`` are its legal first slices."""

    profile_id: int
    size: int
    starts: tuple[int, ...]


@dataclass(frozen=True)
class Device:
    gpu_id: int
    height: int
    shapes: tuple[Shape, ...]
    teams: tuple[str, ...]


@dataclass(frozen=True)
class PastUse:
    """One lease that was: held ``[start, closed)`` of a window that ended at ``end``; ``busy`` is a share of 1."""

    gpu_id: int
    profile_id: int
    first_slice: int
    size: int
    team: str
    start: dt.datetime
    end: dt.datetime
    closed: dt.datetime
    reason: str
    busy: float


def make_past(devices: Sequence[Device], today: dt.date, seed: int = 20418) -> list[PastUse]:
    """The same for the same arguments; nothing overlaps, and all of it lies before the start of ``today`` (UTC)."""
    chance = random.Random(seed)
    uses: list[PastUse] = []
    for age in range(DAYS, 0, -1):
        day = today - dt.timedelta(days=age)
        for device in devices:
            if chance.random() < SHARE_OF_DAYS_USED[day.weekday() < 5]:
                uses.extend(_day_on(device, day, chance))
    return uses


def utilization_at(use: PastUse, at: dt.datetime) -> float:
    """Percent in the bucket that begins at ``at``: a level with a slow wave, steady for the same lease."""
    phase = at.timestamp() / 1700 + use.gpu_id + use.first_slice
    return round(max(0.0, min(100.0, 100 * use.busy * (0.9 + 0.1 * math.sin(phase)))), 1)


def buckets_of(use: PastUse) -> Iterator[tuple[dt.datetime, int]]:
    """(start of the bucket, seconds of it that the lease held)."""
    at = dt.datetime.fromtimestamp(use.start.timestamp() // BUCKET_SECONDS * BUCKET_SECONDS, dt.UTC)
    while at < use.closed:
        end = at + dt.timedelta(seconds=BUCKET_SECONDS)
        yield at, int((min(end, use.closed) - max(at, use.start)).total_seconds())
        at = end


def _day_on(device: Device, day: dt.date, chance: random.Random) -> Iterator[PastUse]:
    for shape, first in _layout(device, chance):
        if chance.random() < SHARE_LEFT_FREE:
            continue
        hour = chance.uniform(FIRST_HOUR, FIRST_HOUR + 4)
        start = dt.datetime.combine(day, dt.time.min, tzinfo=dt.UTC) + dt.timedelta(minutes=5 * int(hour * 12))
        length = dt.timedelta(minutes=15 * chance.randint(6, 4 * (LAST_HOUR - FIRST_HOUR - 4)))
        yield _use(device, shape, first, start, start + length, chance)


def _use(
    device: Device, shape: Shape, first: int, start: dt.datetime, end: dt.datetime, chance: random.Random
) -> PastUse:
    reason, closed = "completed", end
    luck = chance.random()
    if luck < SHARE_RELEASED + SHARE_FAILED:
        reason = "failed" if luck < SHARE_FAILED else "released"
        closed = start + (end - start) * chance.uniform(0.3, 0.9)
        closed = closed.replace(microsecond=0)
    busy = chance.choice((0.04, 0.35, 0.6, 0.8, 0.93))
    return PastUse(
        device.gpu_id,
        shape.profile_id,
        first,
        shape.size,
        chance.choice(device.teams),
        start,
        end,
        closed,
        reason,
        busy,
    )


def _layout(device: Device, chance: random.Random) -> Iterator[tuple[Shape, int]]:
    """Shapes side by side from the first slice up, each on a legal start."""
    first = 0
    while first < device.height:
        fits = [shape for shape in device.shapes if first in shape.starts and first + shape.size <= device.height]
        if not fits:
            first += 1
            continue
        shape = chance.choice(fits)
        yield shape, first
        first += shape.size
