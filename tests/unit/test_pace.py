"""Where a budget ends up: what is left now, used on at the pace of the last two weeks."""

import datetime as dt

from portal.reservations.pace import LOOKED_BACK, pace_of

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
DAY = 86400
FORTNIGHT = int(LOOKED_BACK.total_seconds())


def in_days(days: float) -> dt.datetime:
    return NOW + dt.timedelta(days=days)


def test_at_one_slice_day_a_day_five_left_last_five_days():
    assert pace_of(5 * DAY, 14 * DAY, in_days(20), NOW).runs_out_at == in_days(5)


def test_what_lasts_beyond_the_period_never_runs_out():
    pace = pace_of(5 * DAY, 14 * DAY, in_days(4), NOW)
    assert (pace.runs_out_at, pace.end_left, pace.over) == (None, 1 * DAY, 0)


def test_what_lasts_exactly_to_the_end_of_the_period_never_runs_out():
    pace = pace_of(4 * DAY, 14 * DAY, in_days(4), NOW)
    assert (pace.runs_out_at, pace.end_left) == (None, 0)


def test_what_is_missing_at_the_end_is_said():
    assert pace_of(5 * DAY, 14 * DAY, in_days(8), NOW).over == 3 * DAY


def test_where_nothing_was_spent_nothing_runs_out():
    assert pace_of(1, 0, in_days(300), NOW).runs_out_at is None


def test_corrections_that_outweigh_what_was_held_do_not_fill_a_budget():
    assert pace_of(5 * DAY, -14 * DAY, in_days(8), NOW).end_left == 5 * DAY


def test_what_is_used_up_or_cut_below_its_use_runs_out_now():
    assert pace_of(0, 0, in_days(8), NOW).runs_out_at == NOW
    assert pace_of(-DAY, 14 * DAY, in_days(8), NOW).runs_out_at == NOW


def test_a_huge_pace_is_whole_numbers_all_the_way():
    pace = pace_of(FORTNIGHT * 10**12, FORTNIGHT * 10**12 + 1, in_days(30), NOW)
    assert isinstance(pace.end_left, int)
    assert pace.runs_out_at == in_days(14) - dt.timedelta(seconds=1)
