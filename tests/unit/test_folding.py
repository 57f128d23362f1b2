"""The fold of the ledger: nothing is lost or counted twice, whatever the zone does at night."""

import datetime as dt
import random
import zoneinfo

import pytest

from portal.ledger.folding import Day, Fact, days_of, seconds_by_day, seconds_within, stretches, whole_second

TAIPEI = zoneinfo.ZoneInfo("Asia/Taipei")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SANTIAGO = zoneinfo.ZoneInfo("America/Santiago")  # its clock jumps at midnight
NOON = dt.datetime(2026, 3, 28, 12, tzinfo=dt.UTC)


def _hours(day: Day) -> float:
    return (day.until - day.since).total_seconds() / 3600


def test_a_day_in_spring_has_23_hours_and_one_in_autumn_25():
    spring = days_of(dt.date(2026, 3, 28), dt.date(2026, 3, 30), BERLIN)
    autumn = days_of(dt.date(2026, 10, 24), dt.date(2026, 10, 26), BERLIN)
    assert [_hours(day) for day in spring] == [24, 23, 24]
    assert [_hours(day) for day in autumn] == [24, 25, 24]


@pytest.mark.parametrize("zone", [TAIPEI, BERLIN, SANTIAGO], ids=str)
def test_days_follow_one_another_without_a_gap_for_a_whole_year(zone):
    days = days_of(dt.date(2026, 1, 1), dt.date(2026, 12, 31), zone)
    assert len(days) == 365
    assert all(before.until == after.since for before, after in zip(days, days[1:], strict=False))
    assert all(23 <= _hours(day) <= 25 for day in days)


@pytest.mark.parametrize("zone", [TAIPEI, BERLIN, SANTIAGO], ids=str)
def test_any_partition_of_time_adds_up_to_the_whole(zone):
    chance = random.Random(20260328)
    days = days_of(dt.date(2026, 3, 1), dt.date(2026, 11, 30), zone)
    for lease_id in range(200):
        since = NOON + dt.timedelta(seconds=chance.uniform(0, 200 * 86400))
        until = since + dt.timedelta(seconds=chance.uniform(0, 5 * 86400))
        cuts = sorted(since + (until - since) * chance.random() for _ in range(chance.randrange(5)))
        whole = whole_second(until) - whole_second(since)
        edges = [since, *cuts, until]
        parts = [Day(since.date(), one, other) for one, other in zip(edges, edges[1:], strict=False)]
        assert sum(seconds_within(since, until, part) for part in parts) == whole
        by_day = seconds_by_day(
            stretches([Fact(lease_id, "opened", since), Fact(lease_id, "closed", until)], until), days
        )
        assert sum(by_day.values()) == whole


def test_what_is_open_counts_until_now_and_a_correction_on_the_day_it_was_made():
    days = days_of(dt.date(2026, 3, 27), dt.date(2026, 3, 29), BERLIN)
    facts = [
        Fact(1, "opened", NOON),
        Fact(2, "closed", NOON + dt.timedelta(hours=1)),
        Fact(2, "opened", NOON),
        Fact(2, "corrected", NOON + dt.timedelta(days=1), -600),
    ]
    by_day = seconds_by_day(stretches(facts, NOON + dt.timedelta(minutes=10)), days)
    assert by_day == {
        (1, dt.date(2026, 3, 28)): 600,
        (2, dt.date(2026, 3, 28)): 3600,
        (2, dt.date(2026, 3, 29)): -600,
    }


def test_a_lease_that_ends_at_midnight_leaves_nothing_in_the_next_day():
    days = days_of(dt.date(2026, 3, 28), dt.date(2026, 3, 29), BERLIN)
    by_day = seconds_by_day(stretches([Fact(1, "opened", NOON), Fact(1, "closed", days[0].until)], NOON), days)
    assert by_day == {(1, dt.date(2026, 3, 28)): 11 * 3600}
