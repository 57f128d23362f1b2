"""Calendar files: what is in them is what the rows say, read back by a calendar library."""

import datetime as dt
import zoneinfo

import pytest
from django.test import Client
from django.utils import timezone
from icalendar import Calendar
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.reservations.calendar_feeds import make_feed
from portal.reservations.changing import release_reservation
from portal.reservations.models import LeaseState, Maintenance, Reservation, State
from portal.reservations.moving import rename_reservation
from portal.tenants.models import Role
from tests.db.house import House
from tests.factories import HOUR, make_pool_with_gpus, make_reservation, make_tenant, make_user, window

pytestmark = pytest.mark.django_db
DAY = 24 * HOUR


@pytest.fixture
def house() -> House:
    return House()


def path_of(address: str) -> str:
    return address.removeprefix("http://127.0.0.1:8000")


def address_of(owner: User, **of) -> str:
    return path_of(make_feed(owner=owner, **of)[1])


def read(address: str, **headers) -> bytes:
    answer = Client(headers=headers).get(address)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/calendar; charset=utf-8"
    return answer.content


def events(content: bytes) -> dict:
    """By the first part of the UID: reservation-12."""
    return {str(event["UID"]).partition("@")[0]: event for event in Calendar.from_ical(content).events}


def of(reservation: Reservation, found: dict):
    return found[f"reservation-{reservation.pk}"]


def times(event) -> tuple[dt.datetime, dt.datetime]:
    return event["DTSTART"].dt, event["DTEND"].dt


def test_what_is_read_back_is_what_the_rows_say(house):
    booked = house.book("3g.40gb", hours=4.5)
    event = of(booked, events(read(address_of(house.owner))))
    assert times(event) == (booked.starts_at, booked.ends_at)
    assert (event["SUMMARY"], event["STATUS"], event["SEQUENCE"]) == ("train · 3g.40gb", "CONFIRMED", 0)
    assert event["URL"] == f"http://127.0.0.1:8000/reservations/R-{booked.pk}/"
    assert event["LAST-MODIFIED"].dt == booked.changed_at.replace(microsecond=0)
    assert f"R-{booked.pk} · confirmed\nH100" in event["DESCRIPTION"]
    assert event["DTSTART"].to_ical().endswith(b"Z")


def test_a_whole_file_is_what_calendar_programs_take(house):
    house.book()
    content = read(address_of(house.owner))
    assert content.startswith(b"BEGIN:VCALENDAR\r\n")
    assert content.count(b"\n") == content.count(b"\r\n")
    assert max(len(line) for line in content.split(b"\r\n")) <= 75
    calendar = Calendar.from_ical(content)
    assert (calendar["VERSION"], calendar["X-WR-CALNAME"]) == ("2.0", "Berth: my reservations")
    assert not [problem for event in calendar.events for problem in event.errors]


def test_every_change_raises_the_sequence_and_the_uid_stays(house):
    booked = house.book(hours=4)
    address = address_of(house.owner)
    found = [of(booked, events(read(address)))]
    house.change(booked, end=booked.ends_at + HOUR)
    found.append(of(booked, events(read(address))))
    rename_reservation(reservation=booked, name="second run", actor=house.owner)
    found.append(of(booked, events(read(address))))
    release_reservation(reservation=booked, actor=house.owner)
    found.append(of(booked, events(read(address))))
    sequences = [int(event["SEQUENCE"]) for event in found]
    assert sequences == sorted(set(sequences)), "each is above the one before"
    assert len({str(event["UID"]) for event in found}) == 1
    assert times(found[1])[1] == times(found[0])[1] + HOUR
    assert found[2]["SUMMARY"] == "second run · 1g.10gb"
    assert [event["STATUS"] for event in found] == ["CONFIRMED", "CONFIRMED", "CONFIRMED", "CANCELLED"]


def test_whoever_changes_a_row_the_database_counts_it(house):
    booked = house.book()
    before = booked.changed_at
    Reservation.objects.filter(pk=booked.pk).update(hold_expires_at=None)
    booked.refresh_from_db()
    assert (booked.changes, booked.changed_at) == (0, before)
    Reservation.objects.filter(pk=booked.pk).update(during=window(house.start, 2))
    Reservation.objects.filter(pk=booked.pk).update(during=window(house.start, 3))
    booked.refresh_from_db()
    assert booked.changes == 2
    assert booked.changed_at >= before


@pytest.mark.parametrize(
    ("state", "status"),
    [("queued", "TENTATIVE"), ("confirmed", "CONFIRMED"), ("running", "CONFIRMED"), ("cancelled", "CANCELLED"),
     ("refused", "CANCELLED")],
)  # fmt: skip
def test_each_state_has_its_status(house, state, status):
    booked = house.book()
    Reservation.objects.filter(pk=booked.pk).update(state=state, ended_at=timezone.now())
    assert of(booked, events(read(address_of(house.owner))))["STATUS"] == status


def test_what_is_cancelled_stays_for_30_days_and_what_is_over_too(house):
    gpu, now = house.pool.gpus.first(), timezone.now()

    def ended(days: float, state: State) -> Reservation:
        made = make_reservation(
            house.team, house.pool, "1g.10gb", window(now - days * DAY, 2), places=((gpu, 0),), owner=house.owner,
            state=state, lease_state=LeaseState.ENDED)  # fmt: skip
        Reservation.objects.filter(pk=made.pk).update(ended_at=now - days * DAY + 2 * HOUR)
        return made

    kept = [ended(29, State.ENDED), ended(29, State.CANCELLED)]
    gone = [ended(31, State.ENDED), ended(31, State.CANCELLED)]
    found = events(read(address_of(house.owner)))
    assert {f"reservation-{one.pk}" for one in kept} == set(found)
    assert [of(one, found)["STATUS"] for one in kept] == ["CONFIRMED", "CANCELLED"]
    assert len(gone) == 2


def test_what_was_given_back_early_or_never_began_is_not_shown_as_held(house):
    early, never = house.book(hours=4), house.book(hours=4)
    Reservation.objects.filter(pk=early.pk).update(
        state="ended", end_reason="released", ended_at=early.starts_at + HOUR)  # fmt: skip
    Reservation.objects.filter(pk=never.pk).update(
        state="ended", end_reason="displaced", ended_at=never.starts_at - HOUR)  # fmt: skip
    found = events(read(address_of(house.owner)))
    assert times(of(early, found)) == (early.starts_at, early.starts_at + HOUR)
    assert (of(never, found)["STATUS"], *times(of(never, found))) == ("CANCELLED", never.starts_at, never.ends_at)


NAMES = [
    "a\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nSUMMARY:evil", "a\rATTACH:http://evil", "semi;colon,comma\\back\\nslash",
    "😀" * 64, "\u2028line\u2029paragraph\x0bvertical\x85next", 'BEGIN:VALARM"', "é" * 64, "name\n",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_can_write_a_line_of_its_own(house, name):
    booked = house.book()
    booked.workload.name = name[:64]
    booked.workload.save()
    house.owner.name = name[:100]
    house.owner.save()
    content = read(address_of(house.lead, tenant=house.team))
    (event,) = Calendar.from_ical(content).events
    flat = "".join(" " if char in "\r\n\u2028\u2029\x0b\x85" else char for char in name)
    assert event["SUMMARY"] == f"{flat[:64]} · 1g.10gb · {flat[:100]}"
    assert content.count(b"\r\nBEGIN:") == 1
    assert {len(line) <= 75 for line in content.split(b"\r\n")} == {True}
    assert len(content.decode().splitlines()) == content.count(b"\r\n"), "no reader sees more lines than there are"


def around_changes(place: zoneinfo.ZoneInfo) -> list[dt.date]:
    """The days before and after each change of the clock within a year from now."""
    nine = [dt.datetime.combine(timezone.now() + number * DAY, dt.time(9), place) for number in range(2, 368)]
    changes = [number for number in range(1, len(nine)) if nine[number].utcoffset() != nine[number - 1].utcoffset()]
    return [nine[number + side].date() for number in changes for side in (-1, 0)]


@pytest.mark.case("R-05")
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham"])
def test_nine_o_clock_is_nine_o_clock_on_both_sides_of_a_clock_change(house, zone):
    place, gpu = zoneinfo.ZoneInfo(zone), house.pool.gpus.first()
    made = []
    for day in around_changes(place):
        start, end = (dt.datetime.combine(day, dt.time(hour), place) for hour in (9, 11))
        made.append(make_reservation(
            house.team, house.pool, "1g.10gb", DateTimeTZRange(start, end, "[)"), places=((gpu, 0),),
            owner=house.owner))  # fmt: skip
    assert len(made) == 4, "into summer time and out of it"
    found = events(read(address_of(house.owner)))
    for one in made:
        start, end = times(of(one, found))
        assert (start.astimezone(place).hour, end.astimezone(place).hour, end - start) == (9, 11, 2 * HOUR)
    assert len({times(of(one, found))[0].time() for one in made}) == 2, "by UTC they are not at the same hour"


def test_a_tenants_file_shows_it_and_all_below_with_who_and_the_maintenance_of_its_pools(house):
    booked, below = house.book(), house.book(tenant=house.project)
    other = make_tenant("robotics", house.root)
    foreign = house.book(tenant=other, owner=make_user("eve", tenant=other))
    elsewhere = make_pool_with_gpus("A100")
    here, _everywhere, _there = [
        Maintenance.objects.create(during=window(house.start), reason="new driver", created_by=house.admin, **of)
        for of in ({"pool": house.pool}, {}, {"pool": elsewhere})
    ]
    found = events(read(address_of(house.lead, tenant=house.team)))
    assert f"reservation-{foreign.pk}" not in found
    assert of(booked, found)["SUMMARY"] == "train · 1g.10gb · owner"
    assert f"reservation-{below.pk}" in found
    assert sorted(key for key in found if key.startswith("maintenance")) == [
        f"maintenance-{here.pk}", f"maintenance-{here.pk + 1}"]  # fmt: skip
    assert found[f"maintenance-{here.pk}"]["SUMMARY"] == f"Maintenance: {house.pool.name}"


def test_a_nodes_file_shows_what_lies_on_it_and_its_maintenance(client):
    house = House(gpus=2, nodes=2)
    first, second = house.pool.gpus.order_by("index").select_related("node")
    here, there = [
        make_reservation(house.team, house.pool, "1g.10gb", window(house.start), places=((gpu, 0),))
        for gpu in (first, second)
    ]
    moved = make_reservation(house.team, house.pool, "1g.10gb", window(house.start), places=((first, 1),))
    moved.leases.update(state=LeaseState.ENDED)
    down = Maintenance.objects.create(
        node=first.node, during=window(house.start), reason="fan", created_by=house.admin)  # fmt: skip
    address = address_of(house.admin, node=first.node)
    assert set(events(read(address))) == {f"reservation-{here.pk}", f"maintenance-{down.pk}"}
    Maintenance.objects.filter(pk=down.pk).update(cancelled_at=timezone.now(), ended_at=timezone.now())
    event = events(read(address))[f"maintenance-{down.pk}"]
    assert (event["STATUS"], int(event["SEQUENCE"]), event["DESCRIPTION"]) == ("CANCELLED", 1, "fan")
    assert there.pk != here.pk


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_queries_do_not_grow_with_the_file(house, rows, django_assert_max_num_queries):
    gpu = house.pool.gpus.first()
    for number in range(rows):
        make_reservation(
            house.team, house.pool, "1g.10gb", window(house.start + number * HOUR), places=((gpu, 0),),
            owner=house.owner)  # fmt: skip
    address = address_of(house.lead, tenant=house.team)
    with django_assert_max_num_queries(8):
        found = events(read(address))
    assert len(found) == rows


def test_a_role_of_a_viewer_is_enough_to_read_a_tenant(house):
    viewer = make_user("viewer", house.team, Role.VIEWER)
    booked = house.book()
    assert f"reservation-{booked.pk}" in events(read(address_of(viewer, tenant=house.team)))
