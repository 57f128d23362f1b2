"""What is left of a series is changed as one object; what has begun, or is over, stays."""

import datetime as dt
import zoneinfo

import pytest
from django.utils import timezone

from portal.inventory.models import Pool
from portal.notices.models import Notice
from portal.quotas.policy_changes import set_policy
from portal.reservations import series_changing
from portal.reservations.changing import release_reservation
from portal.reservations.errors import NoAccess, PolicyRefused, StateConflict
from portal.reservations.models import LIVE, Approval, Lease, Reservation, State
from portal.reservations.moving import change_window
from portal.reservations.series_asked import SeriesRefused
from portal.reservations.series_booking import book_series
from portal.reservations.series_changing import cancel_series, remove_person, skip_occurrence
from portal.reservations.series_moving import add_person, change_series
from tests.db.house import House, bound, span
from tests.db.test_series_booking import asked, date
from tests.factories import HOUR, make_user

pytestmark = pytest.mark.django_db
WEEK = dt.timedelta(days=7)


@pytest.fixture
def house():
    house = House(gpus=1)
    Pool.objects.update(book_ahead_seconds=250 * 86400)
    house.pool.refresh_from_db()
    return house


def students(house: House, count=3):
    return [make_user(f"student-{n}", house.team) for n in range(count)]


def rows(series):
    return list(series.reservations.order_by("occurrence", "pk"))


def make_past(reservation) -> None:
    """As if it had run its window a week ago."""
    during = span(timezone.now() - WEEK, 2)
    reservation.leases.update(during=during, state="ended", end_reason="window_over")
    Reservation.objects.filter(pk=reservation.pk).update(during=during, state=State.ENDED, end_reason="completed")


def move(series, house, week=0, opens=16, closes=18, actor=None) -> int:
    return change_series(
        series=series, actor=actor or house.owner, from_date=date(house, week), opens=dt.time(opens),
        closes=dt.time(closes)
    )  # fmt: skip


@pytest.mark.case("R-04")
def test_the_rest_is_cancelled_as_one_and_what_has_run_stays(house):
    series = book_series(asked(house))
    make_past(rows(series)[0])
    assert cancel_series(series=series, actor=house.owner) == 3
    assert [row.state for row in rows(series)] == [State.ENDED, *[State.CANCELLED] * 3]
    assert not Lease.objects.filter(state__in=LIVE).exists()
    series.refresh_from_db()
    assert series.ended_at is not None
    with pytest.raises(StateConflict, match="nothing left"):
        cancel_series(series=series, actor=house.owner)


@pytest.mark.case("R-04")
def test_a_fault_half_way_changes_nothing(house, monkeypatch):
    series = book_series(asked(house))
    told = []
    record = series_changing.record_change

    def breaks(**change):
        told.append(change)
        if len(told) == 3:
            raise RuntimeError("the third row")
        return record(**change)

    monkeypatch.setattr(series_changing, "record_change", breaks)
    with pytest.raises(RuntimeError):
        cancel_series(series=series, actor=house.owner)
    assert {row.state for row in rows(series)} == {State.CONFIRMED}
    assert Lease.objects.filter(state="planned").count() == 4


def test_from_a_date_on_the_rest_is_cancelled_and_its_places_are_free(house):
    series = book_series(asked(house))
    cancel_series(series=series, actor=house.lead, from_date=date(house, 2))
    assert [row.state for row in rows(series)] == [*[State.CONFIRMED] * 2, *[State.CANCELLED] * 2]
    assert Notice.objects.filter(user=house.owner, kind="cancelled").count() == 1
    house.book("7g.80gb", start=house.start + 2 * WEEK)
    series.refresh_from_db()
    assert series.ended_at is None


def test_one_date_is_given_back_for_everybody_and_remembered(house):
    series = book_series(asked(house, "1g.10gb", people=students(house)))
    assert skip_occurrence(series=series, date=date(house, 1), actor=house.lead) == 3
    series.refresh_from_db()
    assert series.exceptions == [date(house, 1)]
    assert {row.occurrence for row in rows(series) if row.state == State.CONFIRMED} == {
        date(house, week) for week in (0, 2, 3)
    }
    with pytest.raises(StateConflict, match="no occurrence on"):
        skip_occurrence(series=series, date=date(house, 1), actor=house.lead)


def test_a_question_is_withdrawn_with_the_last_that_hangs_on_it(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=1)
    series = book_series(asked(house))
    skip_occurrence(series=series, date=date(house, 0), actor=house.owner)
    assert Approval.objects.get().decision == ""
    cancel_series(series=series, actor=house.owner)
    assert Approval.objects.get().decision == "withdrawn"


def test_new_times_from_a_date_on_keep_numbers_and_leave_the_rest(house):
    people = students(house, 7)
    series = book_series(asked(house, "1g.10gb", people=people))
    numbers = [row.pk for row in rows(series)]
    assert move(series, house, week=1, opens=13, closes=15, actor=house.lead) == 3
    assert [row.pk for row in rows(series)] == numbers
    starts = {row.occurrence: row.during.lower.hour for row in rows(series)}
    assert list(starts.values()) == [12, 13, 13, 13]
    for row in rows(series):
        assert [lease.during for lease in bound(row)] == [row.during]
    series.refresh_from_db()
    assert (series.opens, series.closes) == (dt.time(13), dt.time(15))
    assert Notice.objects.filter(kind="changed").count() == 7


def test_one_date_that_does_not_take_the_new_times_leaves_all_as_they_were(house):
    series = book_series(asked(house))
    house.book("1g.10gb", start=house.start + 3 * WEEK + 4 * HOUR)
    with pytest.raises(SeriesRefused, match="1 of 4 occurrences") as refusal:
        move(series, house)
    assert list(refusal.value.evidence) == [str(date(house, 3))]
    assert {row.during.lower.hour for row in rows(series)} == {12}
    assert Lease.objects.filter(state="planned").count() == 5


def test_a_longer_series_above_the_threshold_is_a_leads_to_change(house):
    series = book_series(asked(house))
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=1)
    with pytest.raises(PolicyRefused, match="a lead of vision-lab"):
        move(series, house, opens=12, closes=15)
    assert move(series, house, opens=16, closes=18) == 4
    assert move(series, house, opens=12, closes=15, actor=house.lead) == 4


def test_one_occurrence_is_moved_or_released_by_itself(house):
    series = book_series(asked(house))
    first, second, *_rest = rows(series)
    change_window(reservation=first, during=span(house.start + 4 * HOUR, 1), actor=house.owner)
    release_reservation(reservation=second, actor=house.owner)
    assert cancel_series(series=series, actor=house.owner, from_date=date(house, 1)) == 2
    first.refresh_from_db()
    assert (first.state, first.during.lower) == (State.CONFIRMED, house.start + 4 * HOUR)


def test_who_joins_a_class_gets_a_place_in_what_is_ahead_and_who_leaves_gives_theirs_back(house):
    people = students(house, 6)
    series = book_series(asked(house, "1g.10gb", people=people))
    skip_occurrence(series=series, date=date(house, 0), actor=house.lead)
    late, later = students(house, 2)
    assert add_person(series=series, person=late, actor=house.lead) == 3
    assert {row.occurrence for row in rows(series) if row.owner == late} == {date(house, week) for week in (1, 2, 3)}
    with pytest.raises(SeriesRefused):
        add_person(series=series, person=later, actor=house.lead)
    assert remove_person(series=series, person=people[0], actor=house.lead) == 3
    assert add_person(series=series, person=later, actor=house.lead) == 3
    assert set(series.roster.all()) == {*people[1:], late, later}
    with pytest.raises(StateConflict, match="already"):
        add_person(series=series, person=later, actor=house.lead)
    with pytest.raises(NoAccess):
        add_person(series=series, person=people[0], actor=people[1])


@pytest.mark.case("R-05")
def test_moved_times_follow_the_local_clock_too(house):
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    wanted = asked(house, zone=berlin, count=33)
    series = book_series(wanted)
    assert move(series, house, opens=9, closes=11) == 33
    starts = [row.during.lower for row in rows(series)]
    assert {start.astimezone(berlin).hour for start in starts} == {9} and {start.hour for start in starts} == {7, 8}
