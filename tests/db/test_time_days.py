"""A day of 23 or 25 hours is priced, booked against budgets, charged, shown and drawn as such."""

import datetime as dt
import zoneinfo

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.models import User
from portal.reports.periods import Choice, Span
from portal.reports.usage import usage_of
from portal.reservations.canvas import Frame
from portal.reservations.errors import BudgetExceeded
from portal.reservations.models import LeaseState, State
from portal.reservations.spending import budget_statuses
from tests.db.house import House
from tests.db.test_time import BERLIN, CHATHAM, LORD_HOWE, asked, next_change, page, reader, text_of
from tests.factories import HOUR, make_budget, make_reservation, record, window

pytestmark = pytest.mark.django_db
CHANGES = [(BERLIN, True), (BERLIN, False), (LORD_HOWE, True), (LORD_HOWE, False), (CHATHAM, True), (CHATHAM, False)]


@pytest.fixture
def house() -> House:
    made = House()
    made.pool.book_ahead_seconds = 400 * 86400
    made.pool.save()
    return made


def whole_day(zone: str, forward: bool) -> tuple[dt.date, int]:
    """The next day on which the clock is put so, and its length in seconds."""
    day, jump = next_change(zone, forward)
    return day, int((24 * HOUR - jump).total_seconds())


@pytest.mark.parametrize(("zone", "forward"), CHANGES)
def test_the_price_of_a_whole_local_day_is_that_of_its_hours(house, zone, forward):
    day, seconds = whole_day(zone, forward)
    typed = asked(
        house, start_date=str(day), start_time="00:00", length="until", end_time="00:00",
        end_date=str(day + dt.timedelta(days=1)))  # fmt: skip
    client = page(reader(house, zone))
    answer = client.get("/reserve/preview/", typed).context["answer"]
    assert answer.preview.price_slice_seconds == seconds
    assert client.post("/reserve/", typed).status_code == 303
    booked = house.team.reservations.get()
    assert (booked.planned_seconds, booked.price_slice_seconds) == (seconds, seconds)
    assert seconds != 86400


@pytest.mark.parametrize(("zone", "forward"), CHANGES)
def test_a_budget_of_a_local_month_commits_the_day_as_long_as_it_is(house, zone, forward):
    day, seconds = whole_day(zone, forward)
    type(house.root).objects.update(time_zone=zone)
    budget = make_budget(house.root, seconds - 1)
    since = dt.datetime.combine(day, dt.time(), zoneinfo.ZoneInfo(zone)).astimezone(dt.UTC)
    with pytest.raises(BudgetExceeded):
        house.book(start=since, hours=seconds / 3600)
    type(budget).objects.update(slice_seconds=seconds)
    house.book(start=since, hours=seconds / 3600)
    (status,) = budget_statuses(house.team, since)
    assert (status.committed, status.left) == (seconds, 0)


@pytest.mark.parametrize(
    ("zone", "day", "seconds"),
    [(BERLIN, "2026-03-29", 23 * 3600), (BERLIN, "2026-10-25", 25 * 3600), (LORD_HOWE, "2026-04-05", 88200),
     (LORD_HOWE, "2026-10-04", 84600), (CHATHAM, "2026-04-05", 25 * 3600), (CHATHAM, "2026-09-27", 23 * 3600)],
)  # fmt: skip
def test_usage_counts_the_day_as_long_as_it_is_and_the_days_beside_it_as_24_hours(house, zone, day, seconds):
    place, date = zoneinfo.ZoneInfo(zone), dt.date.fromisoformat(day)
    days = [date + dt.timedelta(days=step) for step in (-1, 0, 1, 2)]
    edges = [dt.datetime.combine(one, dt.time(), place).astimezone(dt.UTC) for one in days]
    held = make_reservation(
        house.team, house.pool, "2g.20gb", window(edges[0], (edges[3] - edges[0]) / HOUR),
        places=((house.pool.gpus.first(), 0),), state=State.ENDED, lease_state=LeaseState.ENDED)  # fmt: skip
    lease = held.leases.get()
    record(lease, "opened", edges[0])
    record(lease, "closed", edges[3])
    found = usage_of(house.root, Span(Choice.CUSTOM, days[0], days[2], place), timezone.now())
    both = [(figures.reserved, figures.running) for _day, figures in found.by_day]
    assert both == [(2 * 86400, 2 * 86400), (2 * seconds, 2 * seconds), (2 * 86400, 2 * 86400)]


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-06-01"])
def test_no_two_marks_of_a_picture_lie_on_each_other(day):
    place = zoneinfo.ZoneInfo(BERLIN)
    midnight = dt.datetime.combine(dt.date.fromisoformat(day), dt.time(), place)
    with timezone.override(BERLIN):
        frame = Frame(midnight.astimezone(dt.UTC), midnight.astimezone(dt.UTC) + 6 * HOUR, most_ticks=9)
        ticks = [(tick.x, tick.label) for tick in frame.ticks]
    assert len(ticks) >= 5
    assert len({x for x, _label in ticks}) == len({label for _x, label in ticks}) == len(ticks)
    assert ("02:00" in dict((label, x) for x, label in ticks)) == (day != "2026-03-29")


def test_the_zone_of_a_budget_stands_beside_it_where_it_is_not_the_readers(house):
    type(house.root).objects.update(time_zone="Asia/Taipei")
    make_budget(house.root, 10**9)
    client, here = Client(), house.lead
    client.force_login(here)
    assert "days of Asia/Taipei" in text_of(client.get("/usage/", {"tenant": house.team.pk}))
    User.objects.filter(pk=here.pk).update(time_zone="Asia/Taipei")
    assert "days of Asia/Taipei" not in text_of(client.get("/usage/", {"tenant": house.team.pk}))
