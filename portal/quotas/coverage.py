"""Which part of a window quotas cover: their validity, and the hours of the week in which they are open."""

import datetime as dt
import zoneinfo
from collections.abc import Iterable, Sequence

from psycopg2.extras import DateTimeTZRange

from portal.quotas.models import OpenHours, Quota

DAY = dt.timedelta(days=1)
MINUTE = dt.timedelta(minutes=1)
Interval = tuple[dt.datetime, dt.datetime]


def uncovered_part(during: DateTimeTZRange, quotas: Iterable[Quota]) -> DateTimeTZRange | None:
    """The first part of the window in which none of these quotas is valid; None when they cover it together.

    Rows of one tenant and pool meet or lie apart, never over each other, and are taken in order of time.
    """
    parts = filter(None, (quota.part_of(during) for quota in quotas))
    at = during.lower
    for part in sorted(parts, key=lambda one: one.lower):
        if part.lower > at:
            return DateTimeTZRange(at, part.lower, "[)")
        at = max(at, part.upper)
    return DateTimeTZRange(at, during.upper, "[)") if at < during.upper else None


def closed_part(during: DateTimeTZRange, hours: Sequence[OpenHours], zone: zoneinfo.ZoneInfo) -> DateTimeTZRange | None:
    """The first part of the window in which none of the schedules is open; without any it is open always."""
    if not hours:
        return None
    at = during.lower
    for since, until in open_intervals(during, hours, zone):
        if since > at:
            return DateTimeTZRange(at, since, "[)")
        at = max(at, until)
    return DateTimeTZRange(at, during.upper, "[)") if at < during.upper else None


def open_intervals(during: DateTimeTZRange, hours: Sequence[OpenHours], zone: zoneinfo.ZoneInfo) -> list[Interval]:
    """When any of the schedules is open within the window, in order of time; neighbours may meet or overlap.

    An instant is open when the local clock reads within the hours: an hour that exists twice is open twice, and one
    that does not exist opens nothing.
    """
    found: list[Interval] = []
    day, last = during.lower.astimezone(zone).date(), during.upper.astimezone(zone).date()
    while day <= last:
        today = [one for one in hours if one.weekdays & 1 << day.weekday()]
        for since, until, offset in _stretches(day, zone) if today else ():
            for one in today:
                opens, closes = (_instant(day, minutes, offset) for minutes in (one.opens, one.closes))
                piece = max(opens, since, during.lower), min(closes, until, during.upper)
                if piece[0] < piece[1]:
                    found.append(piece)
        day += DAY
    return sorted(found)


def _instant(day: dt.date, minutes: int, offset: dt.timedelta) -> dt.datetime:
    """When a clock that runs ``offset`` ahead of UTC reads so many minutes after the day's midnight."""
    return dt.datetime.combine(day, dt.time.min, tzinfo=dt.UTC) + minutes * MINUTE - offset


def _stretches(day: dt.date, zone: zoneinfo.ZoneInfo) -> list[tuple[dt.datetime, dt.datetime, dt.timedelta]]:
    """The local day as stretches of time with one offset from UTC each: two on a day when the clock is changed."""
    # A day around it on both sides: where the clock is changed at midnight, a date may begin twice or late.
    first = dt.datetime.combine(day, dt.time.min, tzinfo=dt.UTC) - DAY
    edges = [first, *_changes(first, first + 3 * DAY, zone), first + 3 * DAY]
    stretches = []
    for since, until in zip(edges, edges[1:], strict=False):
        offset = _offset(since, zone)
        begins, ends = max(since, _instant(day, 0, offset)), min(until, _instant(day, 1440, offset))
        if begins < ends:
            stretches.append((begins, ends, offset))
    return stretches


def _changes(since: dt.datetime, until: dt.datetime, zone: zoneinfo.ZoneInfo) -> list[dt.datetime]:
    """The instants, to the second, at which the offset changes; at most one in each half of the time is looked for."""
    middle = since + (until - since) / 2
    found = []
    for early, late in ((since, middle), (middle, until)):
        if _offset(early, zone) == _offset(late, zone):
            continue
        low, high = int(early.timestamp()), int(late.timestamp())
        while high - low > 1:
            between = (low + high) // 2
            same = _offset(dt.datetime.fromtimestamp(between, dt.UTC), zone) == _offset(early, zone)
            low, high = (between, high) if same else (low, between)
        found.append(dt.datetime.fromtimestamp(high, dt.UTC))
    return found


def _offset(at: dt.datetime, zone: zoneinfo.ZoneInfo) -> dt.timedelta:
    return at.astimezone(zone).utcoffset() or dt.timedelta(0)
