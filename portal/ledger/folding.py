"""Ledger rows to whole seconds a day. Pure: no query and no clock of its own.

An instant counts as the whole second it lies in, so the seconds of an interval are a difference of two integers and
every partition of time, days of 23 and 25 hours included, adds up to the whole.
"""

import bisect
import datetime as dt
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_A_MOMENT = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Day:
    """A calendar day of a zone: the half-open window ``[since, until)`` between two local midnights."""

    date: dt.date
    since: dt.datetime
    until: dt.datetime


@dataclass(frozen=True)
class Fact:
    """What one ledger entry says: ``kind`` is opened, closed or corrected; ``seconds`` only counts in a correction."""

    lease_id: int
    kind: str
    at: dt.datetime
    seconds: int = 0


@dataclass(frozen=True)
class Stretch:
    """Time that a lease held its slices, or (``since == until``) a correction of ``seconds`` at one moment."""

    lease_id: int
    since: dt.datetime
    until: dt.datetime
    seconds: int = 0


def whole_second(at: dt.datetime) -> int:
    """The second since 1970 that ``at`` lies in."""
    return (at - _EPOCH) // dt.timedelta(seconds=1)


def seconds_within(since: dt.datetime, until: dt.datetime, clip: Day) -> int:
    """Whole seconds of ``[since, until)`` inside the day; 0 when they do not meet."""
    start, end = max(whole_second(since), whole_second(clip.since)), min(whole_second(until), whole_second(clip.until))
    return max(0, end - start)


def midnight(date: dt.date, zone: zoneinfo.ZoneInfo) -> dt.datetime:
    """When the day begins there, in UTC: the first of two midnights, or the jump where the clock skips it."""
    return dt.datetime.combine(date, dt.time.min, tzinfo=zone).astimezone(dt.UTC)


def days_of(first: dt.date, last: dt.date, zone: zoneinfo.ZoneInfo) -> list[Day]:
    """The days from ``first`` to ``last``, both included; each ends where the next begins."""
    dates = [first + dt.timedelta(days=step) for step in range((last - first).days + 1)]
    return [Day(date, midnight(date, zone), midnight(date + dt.timedelta(days=1), zone)) for date in dates]


def stretches(
    facts: Iterable[Fact], now: dt.datetime, window_ends: Mapping[int, dt.datetime] | None = None
) -> Iterator[Stretch]:
    """Pair what opened with what closed it. Order does not matter.

    What is still open lasts until ``now``, or its window's end before that: there the ledger closes it at the latest.
    """
    opened: dict[int, dt.datetime] = {}
    closed: dict[int, dt.datetime] = {}
    for fact in facts:
        if fact.kind == "corrected":
            yield Stretch(fact.lease_id, fact.at, fact.at, fact.seconds)
        else:
            (opened if fact.kind == "opened" else closed)[fact.lease_id] = fact.at
    for lease_id, since in opened.items():
        open_until = min(now, (window_ends or {}).get(lease_id) or now)
        yield Stretch(lease_id, since, max(since, closed.get(lease_id, open_until)))


def seconds_by_day(parts: Iterable[Stretch], days: Sequence[Day]) -> dict[tuple[int, dt.date], int]:
    """Whole seconds by lease and day, corrections included; days where a lease held nothing have no key."""
    found: dict[tuple[int, dt.date], int] = {}
    for part in parts:
        for day in days_met(part.since, part.until, days):
            seconds = part.seconds if part.since == part.until else seconds_within(part.since, part.until, day)
            if seconds:
                found[part.lease_id, day.date] = found.get((part.lease_id, day.date), 0) + seconds
    return found


def days_met(since: dt.datetime, until: dt.datetime, days: Sequence[Day]) -> Sequence[Day]:
    """The days, in order and without gaps, that ``[since, until)`` meets; a moment meets the day it lies in."""
    first = bisect.bisect_right(days, since, key=lambda day: day.until)
    last = bisect.bisect_left(days, max(until, since + _A_MOMENT), key=lambda day: day.since)
    return days[first:last]


@dataclass(frozen=True)
class Cut:
    """An interval as whole UTC days, from ``first`` up to and without ``last``, and the parts of days at its edges."""

    first: dt.date
    last: dt.date
    edges: tuple[Day, ...]


def cut_at_utc_days(since: dt.datetime, until: dt.datetime) -> Cut:
    """Local midnights are rarely UTC's: a month in Chatham begins and ends a quarter to an hour."""
    since, until = since.astimezone(dt.UTC), until.astimezone(dt.UTC)
    first, last = since.date(), until.date()
    if since > _utc_midnight(first):
        first += dt.timedelta(days=1)
    if first > last:
        return Cut(last, last, (Day(last, since, until),))
    before = Day(since.date(), since, _utc_midnight(first))
    after = Day(last, _utc_midnight(last), until)
    return Cut(first, last, tuple(edge for edge in (before, after) if edge.since < edge.until))


def _utc_midnight(date: dt.date) -> dt.datetime:
    return dt.datetime.combine(date, dt.time.min, tzinfo=dt.UTC)
