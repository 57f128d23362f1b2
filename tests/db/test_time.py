"""UTC inside, the reader's zone outside; a local hour that is not one instant is asked about, never shifted."""

import datetime as dt
import html
import re
import zoneinfo

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.models import User
from portal.reservations.errors import HourUnclear
from portal.reservations.forms import WindowForm
from portal.reservations.models import Reservation
from portal.reservations.windows import local_time
from tests.db.house import House
from tests.factories import HOUR, make_reservation, make_user, profile_of

pytestmark = pytest.mark.django_db
DAY = 24 * HOUR
BERLIN, LORD_HOWE, CHATHAM = "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Chatham"


@pytest.fixture
def house() -> House:
    made = House()
    made.pool.book_ahead_seconds = 400 * 86400
    made.pool.save()
    return made


def reader(house: House, zone: str) -> User:
    user = make_user(zone.split("/")[-1].lower(), house.team)
    User.objects.filter(pk=user.pk).update(time_zone=zone)
    return user


def page(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def text_of(answer) -> str:
    return html.unescape(answer.content.decode())


def asked(house: House, **typed: str) -> dict[str, str]:
    return {
        "tenant": str(house.team.pk), "pool": str(house.pool.pk), "ranks": "1", "start": "at", "length": "2",
        "profile": str(profile_of(house.pool, "1g.10gb").pk), "workload": "command", "command": "python train.py",
        "name": "kept as typed", "key": "",
    } | typed  # fmt: skip


def next_change(zone: str, forward: bool) -> tuple[dt.date, dt.timedelta]:
    """The local day of the zone's next change of this kind, a day ahead at least, and by how much."""
    place = zoneinfo.ZoneInfo(zone)
    noons = [dt.datetime.combine(timezone.now() + number * DAY, dt.time(12), place) for number in range(1, 370)]
    for before, after in zip(noons, noons[1:], strict=False):
        jump = (after.utcoffset() or DAY) - (before.utcoffset() or DAY)
        if jump and (jump > dt.timedelta()) == forward:
            return after.date(), jump
    raise AssertionError(f"{zone} has no such change")


R_05 = [
    (BERLIN, "2026-10-26", "2026-10-26T08:00Z"), (BERLIN, "2026-10-24", "2026-10-24T07:00Z"),
    (BERLIN, "2026-03-30", "2026-03-30T07:00Z"), (BERLIN, "2026-03-28", "2026-03-28T08:00Z"),
    (LORD_HOWE, "2026-04-06", "2026-04-05T22:30Z"), (LORD_HOWE, "2026-10-05", "2026-10-04T22:00Z"),
    (CHATHAM, "2026-04-06", "2026-04-05T20:15Z"), (CHATHAM, "2026-09-28", "2026-09-27T19:15Z"),
]  # fmt: skip


@pytest.mark.case("R-05")
@pytest.mark.parametrize(("zone", "day", "utc"), R_05)
def test_nine_to_eleven_is_stored_as_the_instants_it_is_and_read_so_in_every_zone(house, zone, day, utc):
    typed = {"start": "at", "start_date": day, "start_time": "09:00", "length": "until", "end_date": day}
    with timezone.override(zone):
        form = WindowForm(typed | {"end_time": "11:00"})
        assert form.is_valid(), form.errors
    start = dt.datetime.fromisoformat(utc)
    assert (form.request_window.lower, form.request_window.upper) == (start, start + 2 * HOUR)
    gpu = house.pool.gpus.first()
    stored = make_reservation(house.team, house.pool, "1g.10gb", form.request_window, places=((gpu, 0),))
    for other in (zone, "UTC", "America/New_York"):
        place = zoneinfo.ZoneInfo(other)
        hours = "–".join(f"{when.astimezone(place):%H:%M}" for when in (stored.starts_at, stored.ends_at))
        shown = text_of(page(reader(house, other)).get(f"/reservations/R-{stored.pk}/"))
        assert hours in shown
        assert "2 slice-h" in shown, "two hours of the smallest slice, wherever it is read"


@pytest.mark.case("R-05")
@pytest.mark.parametrize("forward", [True, False], ids=["spring", "autumn"])
@pytest.mark.parametrize("zone", [BERLIN, LORD_HOWE, CHATHAM, "America/New_York"])
def test_the_form_books_nine_to_eleven_on_both_sides_of_a_clock_change(house, zone, forward):
    change, _jump = next_change(zone, forward)
    client, place = page(reader(house, zone)), zoneinfo.ZoneInfo(zone)
    for day in (change - DAY, change, change + DAY):
        typed = asked(house, start_date=str(day), start_time="09:00", length="until", end_date=str(day))
        assert client.post("/reserve/", typed | {"end_time": "11:00"}).status_code == 303
        booked = Reservation.objects.latest("pk")
        assert booked.starts_at == dt.datetime.combine(day, dt.time(9), place).astimezone(dt.UTC)
        assert booked.planned_seconds == 7200
        assert "09:00–11:00" in text_of(client.get(f"/reservations/R-{booked.pk}/"))
        token = client.get(f"/api/v1/reservations/{booked.pk}/").json()
        assert dt.datetime.fromisoformat(token["start"]) == booked.starts_at


def readings_in(answer, side: str) -> list[tuple[str, bool, str]]:
    """(value, chosen, label) of the choices shown for this side."""
    found = re.findall(rf'name="{side}_fold" value="(\d+)"( checked)?>([^<]+)<', text_of(answer))
    return [(value, bool(chosen), label) for value, chosen, label in found]


@pytest.mark.parametrize(
    ("zone", "clock", "labels"),
    [(BERLIN, "02:30", ["the first, summer time (UTC+02:00)", "the second (UTC+01:00)"]),
     (LORD_HOWE, "01:45", ["the first, summer time (UTC+11:00)", "the second (UTC+10:30)"]),
     (CHATHAM, "03:15", ["the first, summer time (UTC+13:45)", "the second (UTC+12:45)"])],
)  # fmt: skip
def test_an_hour_that_exists_twice_is_asked_about_and_one_click_answers(house, zone, clock, labels):
    day, jump = next_change(zone, forward=False)
    client = page(reader(house, zone))
    typed = asked(house, start_date=str(day), start_time=clock)
    refused = client.post("/reserve/", typed)
    assert refused.status_code == 422
    assert f"{day} {clock} exists twice in {zone}" in text_of(refused)
    assert 'value="kept as typed"' in text_of(refused)
    (first, chosen, one), (second, also, other) = readings_in(refused, "start")
    assert ([one, other], chosen, also) == (labels, False, False)
    assert int(second) - int(first) == -jump.total_seconds()
    assert not Reservation.objects.exists()
    for value in (first, second):
        previewed = client.get("/reserve/preview/", typed | {"start_fold": value})
        assert [seen for seen, is_chosen, _label in readings_in(previewed, "start") if is_chosen] == [value]
        assert previewed.context["answer"].fits
        assert client.post("/reserve/", typed | {"start_fold": value}).status_code == 303
        assert Reservation.objects.latest("pk").starts_at.timestamp() == int(value)


@pytest.mark.parametrize(
    ("zone", "clock", "before", "after"),
    [(BERLIN, "02:30", "01:59 (UTC+01:00)", "03:00 (UTC+02:00)"),
     (LORD_HOWE, "02:15", "01:59 (UTC+10:30)", "02:30 (UTC+11:00)"),
     (CHATHAM, "02:45", "02:44 (UTC+12:45)", "03:45 (UTC+13:45)")],
)  # fmt: skip
def test_an_hour_that_does_not_exist_is_answered_by_the_nearest_that_do(house, zone, clock, before, after):
    day, _jump = next_change(zone, forward=True)
    client = page(reader(house, zone))
    typed = asked(house, start_date=str(day), start_time=clock)
    refused = client.post("/reserve/", typed)
    assert refused.status_code == 422
    assert f"{day} {clock} does not exist in {zone}" in text_of(refused)
    choices = readings_in(refused, "start")
    assert [label for _value, _chosen, label in choices] == [before, after]
    for value, _chosen, label in choices:
        assert client.post("/reserve/", typed | {"start_fold": value}).status_code == 303
        local = Reservation.objects.latest("pk").starts_at.astimezone(zoneinfo.ZoneInfo(zone))
        assert f"{local:%H:%M}" == label[:5]


def test_an_answer_is_one_to_its_own_question_only(house):
    day, _jump = next_change(BERLIN, forward=False)
    client = page(reader(house, BERLIN))
    typed = asked(house, start_date=str(day), start_time="02:30")
    value = readings_in(client.post("/reserve/", typed), "start")[0][0]
    for stale in ({"start_time": "02:15"}, {"start_fold": str(int(value) + 60)}, {"start_fold": "x" * 500}):
        assert client.post("/reserve/", typed | {"start_fold": value} | stale).status_code == 422
    elsewhere = typed | {"start_fold": value, "start_time": "12:00"}
    assert client.post("/reserve/", elsewhere).status_code == 303
    assert Reservation.objects.get().starts_at.astimezone(zoneinfo.ZoneInfo(BERLIN)).hour == 12


def test_the_end_is_asked_about_as_the_start_is(house):
    day, _jump = next_change(BERLIN, forward=False)
    client = page(reader(house, BERLIN))
    typed = asked(house, start_date=str(day), start_time="01:00", length="until", end_date=str(day), end_time="02:30")
    refused = client.post("/reserve/", typed)
    assert refused.status_code == 422
    assert not readings_in(refused, "start")
    lengths = []
    for value, _chosen, _label in readings_in(refused, "end"):
        assert client.post("/reserve/", typed | {"end_fold": value}).status_code == 303
        lengths.append(Reservation.objects.latest("pk").planned_seconds)
    assert lengths == [5400, 9000]


def test_a_change_is_asked_about_as_a_booking_is(house):
    day, _jump = next_change(BERLIN, forward=False)
    owner = reader(house, BERLIN)
    booked = house.book(start=house.start, hours=2, owner=owner)
    client, one = page(owner), f"/reservations/R-{booked.pk}/change/"
    typed = {
        "name": "kept as typed", "start_date": str(day), "start_time": "02:30",
        "end_date": str(day), "end_time": "06:00",
    }  # fmt: skip
    refused = client.post(one, typed)
    assert refused.status_code == 422
    assert 'value="kept as typed"' in text_of(refused)
    (_first, _no, _label), (second, _not, _words) = readings_in(refused, "start")
    assert readings_in(client.get(one, typed, headers={"HX-Request": "true"}), "start")
    assert client.post(one, typed | {"start_fold": second}).status_code == 303
    booked.refresh_from_db()
    assert (booked.starts_at.timestamp(), booked.planned_seconds) == (int(second), int(3.5 * 3600))


def test_nothing_is_asked_where_the_hour_is_clear(house):
    client = page(reader(house, BERLIN))
    shown = client.get("/reserve/preview/", asked(house, start_date=str(house.start.date()), start_time="12:00"))
    assert not readings_in(shown, "start") and 'id="question-start"' in text_of(shown)


def test_the_gap_is_found_to_the_second_wherever_the_hour_typed_lies_in_it():
    zone = zoneinfo.ZoneInfo(BERLIN)
    for minute in range(60):
        with pytest.raises(HourUnclear) as caught:
            local_time(dt.date(2026, 3, 29), dt.time(2, minute), zone)
        change = dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)
        assert caught.value.readings == (change - dt.timedelta(minutes=1), change)
    for hour in (1, 3):
        assert local_time(dt.date(2026, 3, 29), dt.time(hour), zone).astimezone(zone).hour == hour


WITHOUT_OFFSET = ["2027-03-01T09:00:00", "2027-03-01 09:00", "2027-10-31T02:30:00"]


@pytest.mark.parametrize("when", WITHOUT_OFFSET)
def test_the_api_takes_no_time_without_its_offset_and_says_how_to_write_one(house, when):
    client, booked = page(house.owner), house.book()
    body = {
        "tenant": house.team.pk, "pool": house.pool.pk, "profile": "1g.10gb", "start": when,
        "end": "2027-03-01T11:00:00Z", "workload": {"name": "x", "command": ["x"]},
    }  # fmt: skip
    one = f"/api/v1/reservations/{booked.pk}/"
    query = {"tenant": house.team.pk, "pool": house.pool.pk, "profile": "1g.10gb", "start": when, "end": when}
    answers = [
        client.post("/api/v1/reservations/", body, content_type="application/json"),
        client.patch(one, {"start": when, "end": "2027-03-01T11:00:00Z"}, content_type="application/json"),
        client.get("/api/v1/availability/", query),
        client.get(f"/api/v1/pools/{house.pool.pk}/free/", {"start": when, "end": when}),
    ]
    for answer in answers:
        assert answer.status_code == 422
        assert "offset, as in 2026-11-17T14:45:00+08:00" in answer.json()["message"]
    assert Reservation.objects.count() == 1
