"""Pages of series: what is typed is kept, what does not fit is named, what was agreed is booked."""

import datetime as dt
import html

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.inventory.models import Pool
from portal.reservations.models import Reservation, Series, State
from portal.reservations.series_booking import book_series
from portal.workloads.models import Template
from tests.db.house import House
from tests.db.test_series_booking import asked, date
from tests.factories import make_user, profile_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def house():
    house = House(gpus=1)
    Pool.objects.update(book_ahead_seconds=250 * 86400)
    house.pool.refresh_from_db()
    return house


@pytest.fixture
def typed(house):
    template = Template.objects.create(tenant=house.root, name="Course", command=["train"])
    return {
        "tenant": str(house.team.pk), "pool": str(house.pool.pk), "profile": str(profile_of(house.pool, "7g.80gb").pk),
        "ranks": "1", "first_date": str(house.start.date()), "opens": "12:00", "closes": "14:00", "days": "0",
        "repeat": "WEEKLY", "interval": "1", "ends": "count", "count": "3", "until": "", "exceptions": "",
        "emails": "", "workload": str(template.pk), "command": "", "name": "deep learning", "key": "k",
    }  # fmt: skip


def page_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def text_of(answer) -> str:
    return html.unescape(answer.content.decode())


def test_the_form_books_and_leads_to_the_series(house, typed):
    page = page_of(house.owner)
    assert "Weekly on" in text_of(page.get("/series/new/"))
    answer = page.post("/series/new/", typed)
    series = Series.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/series/{series.pk}/")
    assert (series.name, series.rule, series.reservations.count()) == ("deep learning", "FREQ=WEEKLY;COUNT=3", 3)
    shown = text_of(page.get(answer["Location"]))
    assert "deep learning" in shown and "every week, 3 times" in shown and "12:00–14:00" in shown
    assert page.post("/series/new/", typed)["Location"] == answer["Location"]
    assert "deep learning" in text_of(page.get("/series/"))


def test_what_does_not_fit_is_named_and_booked_without_it_once_it_is_skipped(house, typed):
    house.book("1g.10gb", start=house.start + dt.timedelta(weeks=1))
    page = page_of(house.owner)
    shown = text_of(page.get("/series/new/preview/", typed))
    assert "2 of 3 fit" in shown and f'value="{date(house, 1)}"' in shown and "28 slice-h" in shown
    refused = page.post("/series/new/", typed)
    assert refused.status_code == 409 and not Series.objects.exists()
    assert "1 of 3 occurrences cannot be booked" in text_of(refused) and 'value="deep learning"' in text_of(refused)
    assert page.post("/series/new/", typed | {"skip": [str(date(house, 1))]}).status_code == 303
    assert Series.objects.get().exceptions == [date(house, 1)]


def test_without_script_the_check_button_answers_on_the_page(house, typed):
    shown = text_of(page_of(house.owner).get("/series/new/", typed | {"check": "1", "weekdays": ["MO", "WE"]}))
    assert "3 of 3 fit" in shown and 'value="deep learning"' in shown
    assert shown.count('name="weekdays"') == 7 and 'value="WE" checked' in shown


@pytest.mark.parametrize(("wrong", "said"), [
    ({"closes": "11:00"}, "Does it end the day after?"),
    ({"count": "0"}, "greater than or equal to 1"),
    ({"count": "201"}, "less than or equal to 200"),
    ({"ends": "until"}, "This is needed."),
    ({"exceptions": "24.12.2026"}, "Write dates as in"),
    ({"skip": "soon"}, "Write dates as in"),
    ({"first_date": "2026-02-30"}, "valid date"),
    ({"first_date": "9999-12-30"}, "too far away"),
    ({"repeat": "HOURLY"}, "HOURLY is not one of"),
    ({"profile": "99"}, "Choose one of those that are offered"),
    ({"workload": "command", "command": "'"}, "quotation mark"),
    ({"take": "1.1.1.999999999.100000000", "opens": ""}, "required"),
    ({"days": "99"}, "less than or equal to 31"),
])  # fmt: skip
def test_what_is_wrong_is_said_beside_its_field_and_everything_typed_stays(house, typed, wrong, said):
    answer = page_of(house.owner).post("/series/new/", typed | {"name": "kept as typed"} | wrong)
    assert answer.status_code == 422 and said in text_of(answer) and 'value="kept as typed"' in text_of(answer)
    assert not Series.objects.exists()


def test_a_lead_pastes_a_list_and_unknown_addresses_are_named(house, typed):
    people = [make_user(f"student-{n}", house.team) for n in range(3)]
    typed["profile"] = str(profile_of(house.pool, "1g.10gb").pk)
    page = page_of(house.lead)
    lines = "\n".join(f"{person.name} <{person.email.upper()}>" for person in people)
    answer = page.post("/series/new/", typed | {"emails": f"{lines}\nnobody@example.org"})
    assert answer.status_code == 422 and "Nobody here has nobody@example.org (1 in all)" in text_of(answer)
    assert "nobody@example.org</textarea>" in text_of(answer)
    sent = typed | {"emails": "\n".join(lines.splitlines()[1:]), "roster": [str(people[0].pk)]}
    assert page.post("/series/new/", sent).status_code == 303
    assert set(Series.objects.get().roster.all()) == set(people) and Reservation.objects.count() == 9
    refused = page_of(house.owner).post("/series/new/", typed | {"emails": lines, "key": "k2"})
    assert refused.status_code == 422 and Series.objects.count() == 1


def test_the_rest_is_cancelled_one_is_skipped_and_hours_change(house):
    series = book_series(asked(house))
    page = page_of(house.owner)
    assert "Skip" in text_of(page.get(f"/series/{series.pk}/skip/{date(house, 0)}/"))
    assert page.post(f"/series/{series.pk}/skip/{date(house, 0)}/").status_code == 303
    assert page.post(f"/series/{series.pk}/skip/{date(house, 0)}/").status_code == 409
    assert page.get(f"/series/{series.pk}/skip/soon/").status_code == 404
    hours = {"from_date": str(date(house, 1)), "opens": "15:00", "closes": "16:00", "days": "0"}
    refused = page.post(f"/series/{series.pk}/change/", hours | {"closes": "14:59"})
    assert refused.status_code == 422 and "14:59" in text_of(refused)
    assert page.post(f"/series/{series.pk}/change/", hours).status_code == 303
    assert {row.during.lower.hour for row in series.reservations.filter(state=State.CONFIRMED)} == {15}
    assert "3 reservations that have not begun" in text_of(page.get(f"/series/{series.pk}/cancel/"))
    assert page.post(f"/series/{series.pk}/cancel/").status_code == 303
    assert not series.reservations.filter(state=State.CONFIRMED).exists()


def test_the_roster_is_changed_by_a_lead_alone(house):
    people = [make_user(f"student-{n}", house.team) for n in range(2)]
    series = book_series(asked(house, "1g.10gb", people=people[:1]))
    page = page_of(house.lead)
    assert page.post(f"/series/{series.pk}/people/", {"email": "nobody@example.org"}).status_code == 422
    assert page.post(f"/series/{series.pk}/people/", {"email": people[1].email}).status_code == 303
    assert page.post(f"/series/{series.pk}/people/{people[0].pk}/remove/").status_code == 303
    assert list(series.roster.all()) == people[1:]
    student = page_of(people[1])
    assert student.get(f"/series/{series.pk}/").status_code == 200
    opened = f"/series/{series.pk}/?date={date(house, 0)}"
    assert f"{people[1]}, Planned" in text_of(page.get(opened))
    assert f"{people[1]}, Planned" not in text_of(page.get(f"/series/{series.pk}/?date=soon"))
    assert student.post(f"/series/{series.pk}/people/", {"email": people[0].email}).status_code == 404
    assert student.post(f"/series/{series.pk}/cancel/").status_code == 404
    assert series.name in text_of(student.get("/series/"))


@pytest.mark.parametrize("of", ["mine", "all"])
def test_the_list_reads_a_constant_number_of_queries(house, of):
    template = book_series(asked(house, count=1))
    page, counts = page_of(house.owner), []
    for rows in (1, 25, 200):
        Series.objects.bulk_create(
            Series(
                tenant=house.team, owner=house.owner, created_by=house.owner, pool=house.pool,
                profile=template.profile, name=f"series {n}", rule=template.rule, time_zone="UTC",
                first_date=template.first_date, opens=template.opens, closes=template.closes)
            for n in range(rows - Series.objects.count())
        )  # fmt: skip
        with CaptureQueriesContext(connection) as queries:
            assert page.get(f"/series/?of={of}").status_code == 200
        counts.append(len(queries))
    assert len(set(counts)) == 1 and counts[0] <= 12
