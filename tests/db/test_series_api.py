"""Series over REST: a dry run says what fits, booking takes all or nothing, the rest is given back as one."""

import json

import pytest
from django.test import Client

from portal.inventory.models import Pool
from portal.reservations.models import Reservation, Series
from portal.reservations.series_booking import book_series
from tests.db.house import House
from tests.db.test_series_booking import WEEK, asked, date
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def house():
    house = House(gpus=1)
    Pool.objects.update(book_ahead_seconds=250 * 86400)
    house.pool.refresh_from_db()
    return house


@pytest.fixture
def said(house):
    return {
        "tenant": house.team.pk, "pool": house.pool.pk, "profile": "7g.80gb", "name": "course",
        "rule": "FREQ=WEEKLY;COUNT=3", "time_zone": "UTC", "first_date": str(house.start.date()), "opens": "12:00",
        "closes": "14:00", "workload": {"name": "train", "command": ["train"]},
    }  # fmt: skip


def send(person, said, address="/api/v1/series/", verb="post", **headers):
    client = Client(headers=headers)
    client.force_login(person)
    answer = getattr(client, verb)(address, json.dumps(said), content_type="application/json")
    return answer.status_code, answer.json()


def test_a_dry_run_books_nothing_and_says_what_fits(house, said):
    house.book("1g.10gb", start=house.start + WEEK)
    status, body = send(house.owner, said | {"dry_run": True})
    assert status == 200 and body["series"] is None and not Series.objects.exists()
    assert [one["fits"] for one in body["preview"]["occurrences"]] == [True, False, True]
    assert body["preview"]["occurrences"][1]["reason"]["code"] == "no_capacity"
    assert body["preview"]["price_slice_seconds"] == 2 * 7 * 7200
    status, body = send(house.owner, said)
    assert (status, body["code"]) == (409, "series_refused") and str(date(house, 1)) in body["evidence"]
    status, body = send(house.owner, said | {"skip": [str(date(house, 1))]}, **{"Idempotency-Key": "k"})
    assert status == 201 and len(body["series"]["reservations"]) == 2
    assert send(house.owner, said | {"skip": [str(date(house, 1))]}, **{"Idempotency-Key": "k"}) == (200, body)


def test_a_question_about_an_hour_has_no_window_in_the_dry_run(house, said):
    berlin = said | {
        "time_zone": "Europe/Berlin", "first_date": "2027-03-28", "opens": "02:30", "rule": "FREQ=DAILY;COUNT=2",
        "dry_run": True,
    }  # fmt: skip
    first = send(house.owner, berlin)[1]["preview"]["occurrences"][0]
    assert (first["start"], first["fits"]) == (None, False) and "does not exist" in first["reason"]["message"]


@pytest.mark.parametrize(("wrong", "code"), [
    ({"rule": "FREQ=WEEKLY"}, "rule_refused"), ({"rule": "x" * 300}, "invalid"), ({"time_zone": "Mars"}, "invalid"),
    ({"time_zone": "../etc"}, "invalid"), ({"first_date": "soon"}, "invalid"), ({"opens": "25:00"}, "invalid"),
    ({"first_date": "9999-12-31"}, "window_refused"), ({"closes": "11:00"}, "window_refused"),
    ({"ranks": 0}, "count_refused"), ({"name": "\u0007"}, "workload_refused"), ({"rosta": []}, "invalid"),
    ({"workload": {"name": "x", "command": []}}, "workload_refused"), ({"template": 1}, "invalid"),
])  # fmt: skip
def test_what_is_wrong_is_refused_with_its_code(house, said, wrong, code):
    status, body = send(house.owner, said | wrong)
    assert (body["code"], status) in [(code, 422), (code, 409)] and not Reservation.objects.exists()


def test_a_class_is_for_leads_and_the_rest_of_it_is_given_back(house, said):
    people = [make_user(f"student-{n}", house.team) for n in range(2)]
    wanted = said | {"profile": "1g.10gb", "roster": [person.pk for person in people]}
    assert send(house.owner, wanted)[0] == 404
    assert send(house.lead, wanted | {"roster": [make_user("stranger").pk]})[0] == 404
    status, body = send(house.lead, wanted)
    address = f"/api/v1/series/{body['series']['id']}/"
    assert status == 201 and len(body["series"]["reservations"]) == 6
    assert send(house.lead, {"date": str(date(house, 0))}, address + "skip/")[0] == 200
    client = Client()
    client.force_login(house.lead)
    assert client.delete(address + f"?from_date={date(house, 2)}").status_code == 200
    states = [(one["occurrence"], one["state"]) for one in client.get(address).json()["reservations"]]
    kept = [state for occurrence, state in states if occurrence == str(date(house, 1))]
    assert kept == ["confirmed"] * 2 and {state for _, state in states} == {"confirmed", "cancelled"}


def test_the_list_is_of_what_the_asker_may_see(house):
    series = book_series(asked(house))
    for person, seen in ((house.owner, [series.pk]), (house.lead, [series.pk]), (make_user("stranger"), [])):
        client = Client()
        client.force_login(person)
        assert [one["id"] for one in client.get("/api/v1/series/").json()["results"]] == seen
    client.force_login(house.lead)
    assert client.get("/api/v1/series/?mine=true").json()["results"] == []


def test_the_hours_of_a_series_are_changed_from_a_date_on(house):
    series = book_series(asked(house))
    address = f"/api/v1/series/{series.pk}/"
    hours = {"from_date": str(date(house, 1)), "opens": "09:00", "closes": "10:30"}
    status, _body = send(house.owner, hours, address, "patch")
    assert status == 200
    starts = [row.during.lower.hour for row in Reservation.objects.order_by("occurrence")]
    assert starts == [12, 9, 9, 9]
    for wrong in ({"closes": "25:00"}, {"days": -1}, {"days": 1.5}, {"from_date": "soon"}, {"colour": "red"}):
        assert send(house.owner, hours | wrong, address, "patch")[0] == 422, wrong
    assert send(house.owner, hours | {"closes": "08:00"}, address, "patch")[0] == 422
    assert send(make_user(), hours, address, "patch")[0] == 404


def test_the_roster_of_a_class_changes_person_by_person(house):
    first, second, third = (make_user(tenant=house.team) for _number in range(3))
    series = book_series(asked(house, "1g.10gb", people=(first, second)))
    address = f"/api/v1/series/{series.pk}/people/"
    status, body = send(house.lead, {"email": third.email.upper()}, address)
    assert status == 200 and len(body["roster"]) == 3
    assert Reservation.objects.filter(owner=third, state="confirmed").count() == 4
    assert send(house.lead, {"email": "nobody@example.org"}, address)[0] == 422
    assert send(house.lead, {}, f"{address}{first.pk}/", "delete")[0] == 200
    assert not Reservation.objects.filter(owner=first, state="confirmed").exists()
    assert send(house.lead, {}, f"{address}{first.pk}/", "delete")[0] == 404
