"""Reminders: at the times that each person chose, once, and never of what is long past."""

import datetime as dt

import pytest
from django.utils import timezone

from portal.notices.models import Kind, Notice
from portal.notices.services import set_preferences
from portal.reservations.models import Reservation, State
from portal.reservations.reminders import LATEST, remind_due
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_reservation, make_user, window

pytestmark = pytest.mark.django_db
DAY, QUARTER, SECOND = 24 * HOUR, HOUR / 4, dt.timedelta(seconds=1)
NOW = timezone.now().replace(microsecond=0)


@pytest.fixture
def team():
    return make_org()[1]


@pytest.fixture
def rosa(team):
    return make_user("rosa", team)


@pytest.fixture
def booked(team, rosa):
    """Makes a reservation that begins then, booked long before."""
    pool = make_pool_with_gpus("H100", gpus=8)
    gpus = iter(pool.gpus.all())

    def book(start: dt.datetime, hours: float = 4, state: State = State.CONFIRMED, days_ago: float = 30):
        made = make_reservation(
            team, pool, "1g.10gb", window(start, hours), places=((next(gpus), 0),), owner=rosa, state=state
        )
        Reservation.objects.filter(pk=made.pk).update(created_at=NOW - days_ago * DAY)
        return made

    return book


def told(kind: Kind) -> list[int]:
    """The leads of what was told, in seconds, in the order of telling."""
    rows = Notice.objects.filter(kind=kind).order_by("pk")
    return [notice.facts["lead_seconds"] for notice in rows]


def test_a_start_is_told_a_day_and_a_quarter_of_an_hour_before_each_once(booked, rosa):
    start = NOW + 2 * DAY
    reservation = booked(start)
    for ahead in (DAY + SECOND, DAY, DAY - SECOND, 2 * HOUR, QUARTER + SECOND, QUARTER, QUARTER - SECOND):
        remind_due(start - ahead)
    assert told(Kind.STARTING) == [86400, 900]
    notice = Notice.objects.earliest("pk")
    assert (notice.user, notice.reservation_id, notice.facts["name"]) == (rosa, reservation.pk, "training")


def test_a_sweep_that_runs_twice_tells_once(booked):
    booked(NOW + DAY)
    assert [remind_due(NOW) for _ in range(3)] == [1, 0, 0]


def test_an_end_is_told_of_what_runs_and_a_lead_longer_than_the_window_is_left_out(booked):
    reservation = booked(NOW - HOUR, hours=4, state=State.RUNNING)
    end = reservation.ends_at
    for ahead in (DAY, 3 * HOUR, QUARTER, QUARTER - SECOND):
        remind_due(end - ahead)
    assert told(Kind.ENDING) == [900]


def test_a_moved_reservation_is_reminded_of_its_new_times(booked):
    reservation = booked(NOW + DAY)
    remind_due(NOW)
    moved = window(NOW + 2 * DAY, 4)
    Reservation.objects.filter(pk=reservation.pk).update(during=moved)
    assert remind_due(NOW) == 0
    assert remind_due(NOW + DAY) == 1
    assert told(Kind.STARTING) == [86400, 86400]


@pytest.mark.parametrize("late, count", [(LATEST - SECOND, 1), (LATEST, 0), (12 * HOUR, 0)])
def test_after_an_outage_only_what_is_not_long_past_is_told(booked, late, count):
    booked(NOW + DAY)
    assert remind_due(NOW + late) == count


def test_nobody_is_told_that_something_starts_that_has_started(booked):
    booked(NOW + QUARTER)
    assert remind_due(NOW + QUARTER) == 0


def test_who_books_for_the_next_hour_is_not_reminded_of_the_day_before(booked):
    booked(NOW + DAY - HOUR / 12, days_ago=0)
    assert remind_due(NOW) == 0
    assert remind_due(NOW + DAY - HOUR / 12 - QUARTER) == 1


@pytest.mark.parametrize("state", [State.QUEUED, State.CANCELLED, State.REFUSED, State.ENDED])
def test_only_what_has_its_place_is_reminded_of(booked, state):
    booked(NOW + DAY, state=state)
    assert remind_due(NOW) == 0


def test_each_person_chooses_when_to_be_reminded(booked, rosa):
    set_preferences(user_id=rosa.pk, not_by_mail=[], start_leads_seconds=[7200], end_leads_seconds=[])
    start = NOW + DAY
    booked(start)
    for ahead in (DAY, 2 * HOUR, QUARTER, -4 * HOUR + QUARTER):
        remind_due(start - ahead)
    assert (told(Kind.STARTING), told(Kind.ENDING)) == ([7200], [])


@pytest.mark.parametrize("rows", [1, 8])
def test_looking_costs_the_same_whatever_was_told_already(booked, rows, django_assert_max_num_queries):
    for _ in range(rows):
        booked(NOW + DAY)
    assert remind_due(NOW) == rows
    with django_assert_max_num_queries(6):
        assert remind_due(NOW) == 0
