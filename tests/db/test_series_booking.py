"""Series and classes: previewed, booked as one, decided as one."""

import dataclasses
import datetime as dt
import time
import zoneinfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.inventory.models import Pool
from portal.notices.models import Notice
from portal.quotas.policy_changes import set_policy
from portal.reservations.approving import approve, expire_approvals, refuse
from portal.reservations.errors import IdempotencyConflict, NoAccess, WindowRefused
from portal.reservations.models import Approval, Lease, Reservation, Series, State
from portal.reservations.moving import change_window
from portal.reservations.series_asked import SeriesAsked, SeriesRefused
from portal.reservations.series_booking import book_series
from portal.reservations.series_dates import Clock, parse_rule
from portal.reservations.series_preview import preview_series
from tests.db.house import RUN, House, span
from tests.factories import HOUR, make_budget, make_pool_with_gpus, make_quota, make_user, profile_of

pytestmark = pytest.mark.django_db
WEEK = dt.timedelta(days=7)
UTC = zoneinfo.ZoneInfo("UTC")


@pytest.fixture
def house():
    house = House(gpus=1)
    Pool.objects.update(book_ahead_seconds=250 * 86400)
    house.pool.refresh_from_db()
    return house


def asked(house: House, profile="7g.80gb", count=4, people=(), by=None, zone=UTC, **more) -> SeriesAsked:
    by = by or (house.lead if people else house.owner)
    values = {
        "created_by": by, "owner": by, "tenant": house.team, "pool": house.pool,
        "profile": profile_of(house.pool, profile), "ranks": 1, "name": "course", "draft": RUN,
        "rule": parse_rule(f"FREQ=WEEKLY;COUNT={count}"), "first_date": house.start.date(),
        "clock": Clock(zone, dt.time(12), dt.time(14)), "roster": tuple(people),
    }  # fmt: skip
    return SeriesAsked(**(values | more))


def date(house: House, week: int) -> dt.date:
    return (house.start + week * WEEK).date()


def why(preview) -> list[str]:
    return [one.refusal.code if one.refusal else "" for one in preview.fits]


def test_every_occurrence_is_a_reservation_of_its_own(house):
    wanted = asked(house)
    assert why(preview_series(wanted)) == [""] * 4
    series = book_series(wanted)
    rows = list(series.reservations.order_by("occurrence"))
    assert [row.occurrence for row in rows] == [date(house, week) for week in range(4)]
    assert {(row.state, row.owner, row.tenant, row.workload.name) for row in rows} == {
        (State.CONFIRMED, house.owner, house.team, "train")
    }
    assert [row.during.lower for row in rows] == [house.start + week * WEEK for week in range(4)]
    assert len({row.workload_id for row in rows}) == 4 and Lease.objects.count() == 4
    change_window(reservation=rows[1], during=span(rows[1].during.lower + HOUR, 1), actor=house.owner)


def test_what_does_not_fit_refuses_the_whole_unless_the_skip_says_so(house):
    house.book("1g.10gb", start=house.start + 2 * WEEK)
    wanted = asked(house)
    seen = preview_series(wanted)
    assert why(seen) == ["", "", "no_capacity", ""] and seen.price_slice_seconds == 3 * 7 * 7200
    with pytest.raises(SeriesRefused, match="1 of 4 occurrences cannot be booked") as refusal:
        book_series(wanted)
    assert list(refusal.value.evidence) == [str(date(house, 2))] and not Series.objects.exists()
    assert Reservation.objects.count() == 1
    skip = {date(house, 2)}
    assert [one.skipped for one in preview_series(wanted, skip=skip).fits] == [False, False, True, False]
    series = book_series(wanted, skip=skip)
    assert (series.reservations.count(), series.exceptions) == (3, [date(house, 2)])


@pytest.mark.parametrize("hours_left", [2, 3])
def test_occurrences_count_together_against_a_budget(house, hours_left):
    make_budget(house.team, hours_left * 2 * 7 * 3600, period="year")
    first = dt.date(house.start.year + 1, 1, 3) if house.start.month == 12 else house.start.date()
    wanted = asked(house, count=3, first_date=first)
    fits = hours_left == 3
    assert why(preview_series(wanted)) == ["", "", "" if fits else "budget_exceeded"]
    if fits:
        assert preview_series(wanted).budget.left == 0
        book_series(wanted)
    else:
        with pytest.raises(SeriesRefused, match="slice-h left"):
            book_series(wanted)


def test_beyond_the_book_ahead_limit_the_last_date_that_can_be_booked_is_named(house):
    set_policy(actor=house.admin, tenant=house.team, book_ahead_seconds=10 * 86400)
    wanted = asked(house, count=3)
    assert why(preview_series(wanted)) == ["", "", "window_refused"]
    last = (house.now + dt.timedelta(days=10)).date()
    with pytest.raises(WindowRefused, match=f"until {last} now, and 1 of 3"):
        book_series(wanted)


def test_an_hour_that_is_a_question_is_neither_shifted_nor_left_out(house):
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    changes = [day for day in (house.start.date() + dt.timedelta(days=n) for n in range(3, 230))
               if dt.datetime.combine(day, dt.time(1), berlin).utcoffset()
               != dt.datetime.combine(day, dt.time(5), berlin).utcoffset()]  # fmt: skip
    day = changes[0]
    wanted = asked(
        house, rule=parse_rule("FREQ=DAILY;COUNT=3"), first_date=day - dt.timedelta(days=1),
        clock=Clock(berlin, dt.time(2, 30), dt.time(4)),
    )  # fmt: skip
    seen = preview_series(wanted)
    assert [one.fits for one in seen.fits] == [True, False, True] and seen.fits[1].occurrence.during is None
    assert seen.fits[1].refusal is seen.fits[1].occurrence.question
    with pytest.raises(SeriesRefused, match="02:30") as refusal:
        book_series(wanted)
    assert refusal.value.status == 422
    assert book_series(wanted, skip={day}).reservations.count() == 2


def test_a_class_has_one_for_each_person_in_every_occurrence_or_none(house):
    people = [make_user(f"student-{n}", house.team) for n in range(7)]
    wanted = asked(house, "1g.10gb", people=people)
    assert why(preview_series(wanted)) == [""] * 4
    series = book_series(wanted)
    assert series.reservations.count() == 28 and set(series.roster.all()) == set(people)
    for week in range(4):
        owners = series.reservations.filter(occurrence=date(house, week)).values_list("owner", flat=True)
        assert sorted(owners) == sorted(person.pk for person in people)
    assert Lease.objects.values_list("reservation").distinct().count() == 28
    eighth = asked(house, "1g.10gb", people=[*people, house.owner], first_date=date(house, 4))
    assert why(preview_series(eighth)) == ["no_capacity"] * 4
    with pytest.raises(SeriesRefused, match="no room for 8"):
        book_series(eighth)


def test_only_a_lead_books_a_class_and_only_for_people_of_the_tenant(house):
    stranger = make_user("stranger")
    with pytest.raises(NoAccess, match="Only a lead"):
        book_series(asked(house, "1g.10gb", people=[house.owner], by=house.owner))
    for run in (book_series, preview_series):
        with pytest.raises(NoAccess, match="stranger is not a member"):
            run(asked(house, "1g.10gb", people=[house.owner, stranger]))


def test_what_one_person_may_hold_is_counted_for_each_and_not_for_all_together(house):
    people = [make_user(f"student-{n}", house.team) for n in range(3)]
    set_policy(actor=house.admin, tenant=house.team, most_weight_each=1)
    wanted = asked(house, "1g.10gb", people=people)
    assert why(preview_series(wanted)) == [""] * 4
    house.book("1g.10gb", start=house.start + WEEK, owner=people[2])
    assert why(preview_series(wanted)) == ["", "policy_refused", "", ""]
    with pytest.raises(SeriesRefused, match="1 are held"):
        book_series(wanted)
    book_series(wanted, skip={date(house, 1)})


def test_all_together_is_one_price_and_one_question(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=3 * 7 * 7200)
    assert book_series(asked(house, count=3, first_date=date(house, 8))).reservations.filter(approval=None).count() == 3
    wanted = asked(house)
    assert preview_series(wanted).threshold == 3 * 7 * 7200
    series = book_series(wanted)
    question = Approval.objects.get()
    assert question.price_slice_seconds == 4 * 7 * 7200
    assert set(series.reservations.values_list("state", "approval")) == {(State.REQUESTED, question.pk)}
    assert Notice.objects.filter(kind="approval_wanted").count() == 1
    with pytest.raises(SeriesRefused):
        book_series(wanted)
    approve(approval=question, actor=house.lead)
    assert set(series.reservations.values_list("state", flat=True)) == {State.CONFIRMED}
    assert Notice.objects.filter(kind="approved", user=house.owner).count() == 1


@pytest.mark.parametrize("answer", ["refused", "expired"])
def test_a_no_or_no_answer_gives_every_place_back(house, answer):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=1)
    series = book_series(asked(house))
    question = Approval.objects.get()
    if answer == "refused":
        refuse(approval=question, actor=house.lead, note="too much")
    else:
        expire_approvals(question.expires_at)
    assert set(series.reservations.values_list("state", flat=True)) == {State.REFUSED}
    assert Notice.objects.filter(user=house.owner).count() == 1
    book_series(asked(house))


def test_the_same_key_books_once_and_another_request_under_it_is_noticed(house):
    first = book_series(asked(house), key="k")
    assert book_series(asked(house), key="k") == first and Reservation.objects.count() == 4
    with pytest.raises(IdempotencyConflict):
        book_series(asked(house, name="other"), key="k")


def test_each_person_is_told_once(house):
    people = [make_user(f"student-{n}", house.team) for n in range(3)]
    series = book_series(asked(house, "1g.10gb", people=people))
    told = Notice.objects.filter(kind="confirmed")
    assert sorted(told.values_list("user", flat=True)) == sorted(person.pk for person in people)
    assert {notice.url for notice in told} == {f"/series/{series.pk}/"}


def test_fifteen_weeks_of_thirty_people_take_seconds_and_a_constant_number_of_queries(house):
    pool = make_pool_with_gpus("H100", gpus=8)
    Pool.objects.filter(pk=pool.pk).update(book_ahead_seconds=250 * 86400)
    pool.refresh_from_db()
    make_quota(house.root, pool, limit=1000)
    people = [make_user(f"student-{n}", house.team) for n in range(30)]
    wanted = dataclasses.replace(asked(house, "1g.10gb", people=people, count=15), pool=pool)
    began = time.monotonic()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        series = book_series(wanted)
    assert series.reservations.count() == 450
    assert time.monotonic() - began < 10
    writes = sum("audit_auditentry" in one["sql"] for one in queries)
    assert len(queries) - writes < 15 * 45 + 250
