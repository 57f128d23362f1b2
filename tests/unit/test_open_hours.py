"""Open hours against the local clock read minute by minute, also on days when it is changed; dates against rows."""

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg2.extras import DateTimeTZRange

from portal.quotas.coverage import closed_part, open_intervals, uncovered_part
from portal.quotas.images import both, covers, is_pattern, matches
from portal.quotas.models import OpenHours, Quota
from portal.quotas.words import hours_words, length

MINUTE = dt.timedelta(minutes=1)
WEEKDAYS, WEEKEND = 0b0011111, 0b1100000
# Each with an instant beside a change of its clock: by an hour, by half of one, at midnight, and over a whole day.
CHANGES = {
    "Europe/Berlin spring": ("Europe/Berlin", dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)),
    "Europe/Berlin autumn": ("Europe/Berlin", dt.datetime(2026, 10, 25, 1, tzinfo=dt.UTC)),
    "Lord Howe": ("Australia/Lord_Howe", dt.datetime(2026, 10, 3, 15, 30, tzinfo=dt.UTC)),
    "Chatham": ("Pacific/Chatham", dt.datetime(2026, 4, 4, 14, tzinfo=dt.UTC)),
    "Havana at midnight": ("America/Havana", dt.datetime(2026, 3, 8, 5, tzinfo=dt.UTC)),
    "Apia without a day": ("Pacific/Apia", dt.datetime(2011, 12, 30, 10, tzinfo=dt.UTC)),
    "Taipei": ("Asia/Taipei", dt.datetime(2026, 11, 30, tzinfo=dt.UTC)),
}


def between(start, end):
    return DateTimeTZRange(start, end, "[)")


def is_open(at, hours, zone):
    local = at.astimezone(zone)
    minutes = local.hour * 60 + local.minute
    return any(one.weekdays >> local.weekday() & 1 and one.opens <= minutes < one.closes for one in hours)


@pytest.mark.case("V-6", "V-7", "V-8")
@pytest.mark.parametrize("name", CHANGES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_minute_is_open_exactly_when_the_local_clock_reads_within_the_hours(name, data):
    zone_name, change = CHANGES[name]
    zone = zoneinfo.ZoneInfo(zone_name)
    bounds = st.tuples(st.integers(1, 127), st.integers(0, 1439), st.integers(1, 1440))
    drawn = data.draw(st.lists(bounds.filter(lambda one: one[1] < one[2]), min_size=1, max_size=3))
    hours = [OpenHours(weekdays=days, opens=opens, closes=closes) for days, opens, closes in drawn]
    first = change + data.draw(st.integers(-2000, 500)) * MINUTE
    minutes = data.draw(st.integers(1, 3000))
    during = between(first, first + minutes * MINUTE)
    intervals = open_intervals(during, hours, zone)
    for number in range(minutes):
        at = first + number * MINUTE
        assert any(since <= at < until for since, until in intervals) == is_open(at, hours, zone), at
    closed = closed_part(during, hours, zone)
    shut = [number for number in range(minutes) if not is_open(first + number * MINUTE, hours, zone)]
    assert (closed is None) == (not shut)
    if closed is not None:
        assert closed.lower == first + shut[0] * MINUTE


def test_working_hours_take_a_window_to_the_second_and_not_one_more():
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    hours = [OpenHours(weekdays=WEEKDAYS, opens=540, closes=1020)]
    nine, five = (dt.datetime(2026, 11, 17, hour, tzinfo=zone) for hour in (9, 17))
    second = dt.timedelta(seconds=1)
    assert closed_part(between(nine, five), hours, zone) is None
    assert closed_part(between(nine - second, five), hours, zone) == between(nine - second, nine)
    assert closed_part(between(nine, five + second), hours, zone) == between(five, five + second)
    assert closed_part(between(nine, five), [], zone) is None


def test_schedules_that_meet_at_midnight_are_one_night():
    zone = zoneinfo.ZoneInfo("Asia/Taipei")
    hours = [OpenHours(weekdays=127, opens=1080, closes=1440), OpenHours(weekdays=127, opens=0, closes=360)]
    evening = dt.datetime(2026, 11, 17, 18, tzinfo=zone)
    assert closed_part(between(evening, evening + dt.timedelta(hours=12)), hours, zone) is None
    assert closed_part(between(evening, evening + dt.timedelta(hours=12, seconds=1)), hours, zone) is not None


@given(data=st.data())
def test_the_uncovered_part_is_the_first_hour_in_no_row(data):
    base = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    hour = dt.timedelta(hours=1)
    edges = sorted(data.draw(st.sets(st.integers(0, 60), max_size=8)))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    rows = [Quota(valid=between(base + a * hour, base + b * hour), limit=1) for a, b in pairs]
    first = data.draw(st.integers(0, 50))
    last = data.draw(st.integers(first + 1, 60))
    missing = [at for at in range(first, last) if not any(a <= at < b for a, b in pairs)]
    part = uncovered_part(between(base + first * hour, base + last * hour), rows)
    assert (part is None) == (not missing)
    if part is not None:
        assert part.lower == base + missing[0] * hour


def test_a_row_without_bounds_covers_everything():
    base = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    open_end, open_start = DateTimeTZRange(base, None, "[)"), DateTimeTZRange(None, base, "[)")
    far = between(base - dt.timedelta(days=9000), base + dt.timedelta(days=9000))
    assert uncovered_part(far, [Quota(limit=1, valid=open_end), Quota(limit=1, valid=open_start)]) is None
    assert uncovered_part(far, [Quota(limit=1)]) is None
    assert uncovered_part(far, []) == far


def test_hours_and_lengths_are_said_as_people_say_them():
    hours = [OpenHours(weekdays=WEEKDAYS, opens=540, closes=1020), OpenHours(weekdays=1 << 6 | 1, opens=0, closes=1440)]
    assert hours_words(hours, "Europe/Berlin") == "Mon–Fri 09:00–17:00, Mon, Sun 00:00–24:00 (Europe/Berlin)"
    assert [length(seconds) for seconds in (0, 59, 5400, 7200, 86400, 604800)] == [
        "0 min", "59 s", "90 min", "2 h", "1 day", "7 days",
    ]  # fmt: skip


IMAGES = st.text("ab/:", min_size=1, max_size=4)
PATTERNS = st.builds(lambda text, star: text + star, st.text("ab/:", max_size=3), st.just("*")) | IMAGES


@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4), IMAGES)
def test_what_two_lists_take_together_is_what_each_of_them_takes(upper, lower, image):
    assert matches(both(upper, lower), image) == (matches(upper, image) and matches(lower, image))


def test_a_star_stands_at_the_end_only():
    assert is_pattern("registry.example.org/team/*") and is_pattern("ubuntu:24.04") and is_pattern("*")
    assert not any(map(is_pattern, ("", "a*b", "**", "UPPER", "a b", "-x")))
    assert covers("a/*", "a/b:*") and not covers("a/b:*", "a/*") and not covers("a", "a:1")
