"""The dates and hours of a series against brute force over the calendar, and through clock changes."""

import calendar
import datetime as dt
import itertools
import zoneinfo

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from portal.reservations.errors import WindowRefused
from portal.reservations.series_dates import (
    MOST_OCCURRENCES,
    Clock,
    Rule,
    RuleRefused,
    dates_of,
    occurrences_of,
    parse_rule,
)

DAY = dt.timedelta(days=1)
# Shrinking walks years of calendar again and again: what failed is small as it is.
BRIEFLY = settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
NAMES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
BERLIN, NEW_YORK, LORD_HOWE, CHATHAM = map(
    zoneinfo.ZoneInfo, ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham")
)
first_dates = st.dates(dt.date(2024, 1, 1), dt.date(2030, 12, 31))


def clock(zone, opens="09:00", closes="11:00", days=0) -> Clock:
    return Clock(zone, dt.time.fromisoformat(opens), dt.time.fromisoformat(closes), days)


def months(date: dt.date) -> int:
    return date.year * 12 + date.month


def occurs(rule: Rule, first: dt.date, date: dt.date) -> bool:
    """Read from the calendar, day by day."""
    if rule.frequency == "DAILY":
        return (date - first).days % rule.interval == 0 and (
            not rule.weekdays or NAMES[date.weekday()] in rule.weekdays
        )
    if rule.frequency == "WEEKLY":
        weeks = ((date - date.weekday() * DAY) - (first - first.weekday() * DAY)).days // 7
        wanted = rule.weekdays or (NAMES[first.weekday()],)
        return weeks % rule.interval == 0 and NAMES[date.weekday()] in wanted
    if (months(date) - months(first)) % rule.interval:
        return False
    if not rule.weekdays:
        return date.day == first.day
    last = calendar.monthrange(date.year, date.month)[1]
    name = NAMES[date.weekday()]
    places = {name, f"{(date.day - 1) // 7 + 1}{name}", f"-{(last - date.day) // 7 + 1}{name}"}
    return bool(places & set(rule.weekdays))


@st.composite
def rules(draw) -> Rule:
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY"]))
    plain = st.sampled_from(NAMES)
    numbered = st.builds(lambda n, day: f"{n}{day}", st.sampled_from([1, 2, 3, 4, -1, -2]), plain)
    day = st.one_of(plain, numbered) if frequency == "MONTHLY" else plain
    weekdays = tuple(draw(st.lists(day, unique=True, max_size=3)))
    return Rule(frequency, draw(st.integers(1, 5)), weekdays, count=draw(st.integers(1, 8)))


@BRIEFLY
@given(rules(), first_dates)
def test_a_count_takes_the_first_dates_that_the_calendar_gives(rule, first):
    calendar_days = (first + n * DAY for n in range(1090))
    wanted = list(itertools.islice((date for date in calendar_days if occurs(rule, first, date)), rule.count))
    if len(wanted) == rule.count:
        assert dates_of(rule, first) == wanted


@BRIEFLY
@given(rules(), first_dates, st.integers(0, 150))
def test_an_end_takes_every_date_up_to_and_with_it(rule, first, days):
    rule = Rule(rule.frequency, rule.interval, rule.weekdays, until=first + days * DAY)
    wanted = [date for date in (first + n * DAY for n in range(days + 1)) if occurs(rule, first, date)]
    if wanted:
        assert dates_of(rule, first) == wanted
    else:
        with pytest.raises(RuleRefused, match="no such date"):
            dates_of(rule, first)


@BRIEFLY
@given(rules())
def test_a_rule_reads_as_it_is_written(rule):
    assert parse_rule(str(rule)) == rule


@pytest.mark.parametrize(("text", "why"), [
    ("", "no part of a rule"),
    ("every monday", "no part of a rule"),
    ("FREQ=WEEKLY;FREQ=DAILY;COUNT=2", "no part of a rule"),
    ("FREQ=HOURLY;COUNT=2", "FREQ is one of DAILY, WEEKLY, MONTHLY"),
    ("FREQ=WEEKLY", "either COUNT or UNTIL"),
    ("FREQ=WEEKLY;COUNT=2;UNTIL=20261218", "either COUNT or UNTIL"),
    ("FREQ=WEEKLY;COUNT=0", "COUNT is a whole number from 1 to 200"),
    ("FREQ=WEEKLY;COUNT=201", "COUNT is a whole number from 1 to 200"),
    ("FREQ=WEEKLY;COUNT=٣", "COUNT is a whole number"),
    ("FREQ=WEEKLY;INTERVAL=1.5;COUNT=2", "INTERVAL is a whole number"),
    ("FREQ=WEEKLY;UNTIL=20261218T090000Z", "UNTIL is the last date"),
    ("FREQ=WEEKLY;UNTIL=20260230", "UNTIL is the last date"),
    ("FREQ=WEEKLY;BYDAY=XX;COUNT=2", "no day"),
    ("FREQ=WEEKLY;BYDAY=1MO;COUNT=2", "FREQ=MONTHLY"),
    ("FREQ=WEEKLY;WKST=SU;COUNT=2", "begin on Monday"),
    ("FREQ=MONTHLY;BYMONTHDAY=3;COUNT=2", "BYMONTHDAY is not understood"),
])  # fmt: skip
def test_a_rule_that_is_not_understood_is_refused_with_the_reason(text, why):
    with pytest.raises(RuleRefused, match=why):
        parse_rule(text)


def test_more_occurrences_than_are_taken_and_an_end_years_away_are_refused():
    first = dt.date(2026, 11, 2)
    with pytest.raises(RuleRefused, match=f"at most {MOST_OCCURRENCES} occurrences"):
        dates_of(parse_rule("FREQ=DAILY;UNTIL=20280101"), first)
    assert len(dates_of(parse_rule("FREQ=DAILY;COUNT=200"), first)) == 200
    for rule in ("FREQ=MONTHLY;INTERVAL=12;COUNT=30", "FREQ=MONTHLY;UNTIL=20400101"):
        with pytest.raises(RuleRefused, match="1096 days after"):
            dates_of(parse_rule(rule), first)


def test_exceptions_are_left_out_and_counted():
    found = occurrences_of(
        parse_rule("FREQ=WEEKLY;COUNT=3"), dt.date(2026, 12, 18), clock(BERLIN), {dt.date(2026, 12, 25)}
    )
    assert [one.date.day for one in found] == [18, 1]
    with pytest.raises(RuleRefused, match="an exception"):
        occurrences_of(parse_rule("FREQ=WEEKLY;COUNT=1"), dt.date(2026, 12, 18), clock(BERLIN), {dt.date(2026, 12, 18)})


@pytest.mark.case("R-05")
@pytest.mark.parametrize(("zone", "first", "offsets"), [
    (BERLIN, dt.date(2026, 10, 19), [2.0, 1.0, 1.0]),
    (BERLIN, dt.date(2027, 3, 22), [1.0, 2.0, 2.0]),
    (LORD_HOWE, dt.date(2026, 9, 28), [10.5, 11.0, 11.0]),
    (LORD_HOWE, dt.date(2027, 3, 29), [11.0, 10.5, 10.5]),
    (CHATHAM, dt.date(2026, 9, 21), [12.75, 13.75, 13.75]),
    (CHATHAM, dt.date(2027, 3, 29), [13.75, 12.75, 12.75]),
])  # fmt: skip
def test_nine_stays_nine_and_two_hours_stay_two_across_the_clock_change(zone, first, offsets):
    found = occurrences_of(parse_rule("FREQ=WEEKLY;COUNT=3"), first, clock(zone))
    for n, (one, hours) in enumerate(zip(found, offsets, strict=True)):
        assert one.date == first + 7 * n * DAY
        local = dt.datetime.combine(one.date, dt.time(9), dt.UTC)
        assert one.during.lower == local - dt.timedelta(hours=hours)
        assert one.during.lower.tzinfo is dt.UTC
        assert one.during.upper - one.during.lower == dt.timedelta(hours=2)
        assert one.during.lower.astimezone(zone).strftime("%Y-%m-%d %H:%M") == f"{one.date} 09:00"


@pytest.mark.case("R-05")
def test_berlins_monday_after_the_change_is_stored_at_eight_and_read_in_new_york_at_four():
    (one,) = occurrences_of(parse_rule("FREQ=WEEKLY;COUNT=1"), dt.date(2026, 10, 26), clock(BERLIN))
    assert (one.during.lower.hour, one.during.upper.hour) == (8, 10)
    assert one.during.lower.astimezone(NEW_YORK).hour == 4
    assert one.during.upper - one.during.lower == dt.timedelta(hours=2)


@pytest.mark.parametrize(("zone", "date", "hours"), [
    (BERLIN, dt.date(2026, 10, 25), 25), (BERLIN, dt.date(2027, 3, 28), 23), (BERLIN, dt.date(2026, 11, 2), 24),
    (LORD_HOWE, dt.date(2026, 10, 4), 23.5), (LORD_HOWE, dt.date(2027, 4, 4), 24.5),
])  # fmt: skip
def test_a_whole_day_lasts_as_long_as_it_does(zone, date, hours):
    (one,) = occurrences_of(parse_rule("FREQ=DAILY;COUNT=1"), date, clock(zone, "00:00", "00:00", days=1))
    assert one.during.upper - one.during.lower == dt.timedelta(hours=hours)


@pytest.mark.parametrize(("zone", "first", "opens", "word"), [
    (BERLIN, dt.date(2027, 3, 21), "02:30", "does not exist"),
    (BERLIN, dt.date(2026, 10, 18), "02:30", "exists twice"),
    (LORD_HOWE, dt.date(2026, 9, 27), "02:15", "does not exist"),
    (LORD_HOWE, dt.date(2027, 3, 28), "01:45", "exists twice"),
    (CHATHAM, dt.date(2026, 9, 20), "03:00", "does not exist"),
    (CHATHAM, dt.date(2027, 3, 28), "03:00", "exists twice"),
])  # fmt: skip
def test_an_hour_that_is_missing_or_doubled_comes_back_as_a_question_for_that_date_alone(zone, first, opens, word):
    before, then, after = occurrences_of(parse_rule("FREQ=WEEKLY;COUNT=3"), first, clock(zone, opens, "08:00"))
    assert then.during is None and word in str(then.question) and str(then.date) in str(then.question)
    assert before.during and after.during and not before.question and not after.question


def test_an_end_before_the_start_fits_no_date_and_the_next_day_is_asked_about():
    with pytest.raises(WindowRefused, match="the day after"):
        occurrences_of(parse_rule("FREQ=DAILY;COUNT=2"), dt.date(2026, 11, 2), clock(BERLIN, "22:00", "06:00"))
    found = occurrences_of(parse_rule("FREQ=DAILY;COUNT=2"), dt.date(2026, 11, 2), clock(BERLIN, "22:00", "06:00", 1))
    assert {one.during.upper - one.during.lower for one in found} == {dt.timedelta(hours=8)}
