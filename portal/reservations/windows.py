"""Windows of time: half-open, aware, UTC inside; people's local hours are turned here and nowhere else."""

import datetime as dt
import zoneinfo

from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.words import length
from portal.reservations.errors import HourUnclear, WindowRefused
from portal.reservations.templatetags.berth_format import duration

START_GRACE = dt.timedelta(seconds=60)
LATEST_YEAR = 9000


def make_window(start: dt.datetime, end: dt.datetime) -> DateTimeTZRange:
    """``[start, end)`` in UTC, to the second; refuses naive times and what is not after its start."""
    if timezone.is_naive(start) or timezone.is_naive(end):
        raise WindowRefused(_("Times need a time zone offset, as in 2026-11-17T14:45:00+08:00."), field="start")
    if max(start.year, end.year) > LATEST_YEAR:
        raise WindowRefused(_("The end is too far away."), {"latest_year": LATEST_YEAR}, field="end")
    start, end = (when.astimezone(dt.UTC).replace(microsecond=0) for when in (start, end))
    if end <= start:
        raise WindowRefused(_("The end must be after the start."), field="end")
    return DateTimeTZRange(start, end, "[)")


def check_window(during: DateTimeTZRange, pool: Pool, now: dt.datetime) -> DateTimeTZRange:
    """The window as it is booked: a start up to a minute ago is no past one. Refuses with the limit in numbers."""
    if during.isempty or during.lower is None or during.upper is None:
        raise WindowRefused(_("A window needs a start and an end."), field="start")
    start = during.lower
    if start < now - START_GRACE:
        raise WindowRefused(
            _("The start is %(length)s in the past.") % {"length": duration((now - start).total_seconds())},
            {"start": start.isoformat(), "now": now.isoformat()},
            field="start",
        )
    _check_length(during, pool)
    if start > now + dt.timedelta(seconds=pool.book_ahead_seconds):
        raise WindowRefused(
            _("%(pool)s can be booked at most %(limit)s ahead.")
            % {"pool": pool, "limit": length(pool.book_ahead_seconds)},
            {"book_ahead_seconds": pool.book_ahead_seconds},
            field="start",
        )
    return during


def check_changed_window(during: DateTimeTZRange, pool: Pool, now: dt.datetime) -> DateTimeTZRange:
    """The window of what began already: its start stays, its end must be ahead and within the pool's limits."""
    if during.upper <= now:
        raise WindowRefused(
            _("The new end is in the past. Release it instead."),
            {"end": during.upper.isoformat(), "now": now.isoformat()},
            field="end",
        )
    _check_length(during, pool)
    return during


def _check_length(during: DateTimeTZRange, pool: Pool) -> None:
    seconds = int((during.upper - during.lower).total_seconds())
    if seconds < pool.shortest_window_seconds:
        raise WindowRefused(
            _("The shortest window in %(pool)s is %(limit)s.")
            % {"pool": pool, "limit": length(pool.shortest_window_seconds)},
            {"seconds": seconds, "shortest_seconds": pool.shortest_window_seconds},
            field="end",
        )
    if seconds > pool.longest_window_seconds:
        raise WindowRefused(
            _("The longest window in %(pool)s is %(limit)s.")
            % {"pool": pool, "limit": length(pool.longest_window_seconds)},
            {"seconds": seconds, "longest_seconds": pool.longest_window_seconds},
            field="end",
        )


def local_time(date: dt.date, time: dt.time, zone: zoneinfo.ZoneInfo, field: str = "start") -> dt.datetime:
    """The instant of a local date and time, never shifted: an hour that does not exist or exists twice is a question.

    Raises :class:`HourUnclear` with both instants, or with the last minute before the gap and the first time after it.
    """
    early = dt.datetime.combine(date, time, tzinfo=zone)
    try:
        first, second = early.astimezone(dt.UTC), early.replace(fold=1).astimezone(dt.UTC)
    except (OverflowError, ValueError) as error:
        raise WindowRefused(_("That date is too far away."), field=field) from error
    if first == second:
        return first
    shown = {"time": f"{date:%Y-%m-%d} {time:%H:%M}", "zone": zone.key}
    if first < second:
        said = _("%(time)s exists twice in %(zone)s: the clock is put back then. Which one is meant?")
        readings = (first, second)
    else:  # in the gap of a clock change the two readings come out reversed
        said = _("%(time)s does not exist in %(zone)s: the clock is put forward then. Which time is meant?")
        after = _first_after_gap(second, first, zone)
        readings = (after - dt.timedelta(minutes=1), after)
    evidence = shown | {"readings": ", ".join(when.astimezone(zone).isoformat() for when in readings)}
    raise HourUnclear(said % shown, evidence, field=field, readings=readings, twice=first < second)


def _first_after_gap(before: dt.datetime, after: dt.datetime, zone: zoneinfo.ZoneInfo) -> dt.datetime:
    """The instant, to the second, at which the clock is put forward: after ``before``, at ``after`` at the latest."""
    old = before.astimezone(zone).utcoffset()
    while after - before > dt.timedelta(seconds=1):
        middle = before + dt.timedelta(seconds=(after - before) // dt.timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after
