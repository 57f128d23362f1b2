"""The reserve form: booked once, refused with everything kept, and an answer to whatever may be typed into it."""

import datetime as dt
import html
import re
import zoneinfo

import pytest
from django.test import Client
from django.utils import timezone

from portal.inventory.models import Gpu
from portal.reservations.models import Reservation
from portal.tenants.models import Role
from portal.workloads.models import Template
from tests.factories import (
    HOUR,
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    profile_of,
    window,
)  # fmt: skip

pytestmark = pytest.mark.django_db


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def pool(org):
    pool = make_pool_with_gpus("H100", gpus=1)
    make_quota(org[0], pool, limit=14)
    return pool


@pytest.fixture
def template(org):
    return Template.objects.create(tenant=org[0], name="Training run", command=["python3", "-c", "print(1)"])


@pytest.fixture
def member(org):
    user = make_user("rosa", org[1])
    user.time_zone = "Europe/Vienna"
    user.save()
    return user


@pytest.fixture
def page(client: Client, member):
    client.force_login(member)
    return client


@pytest.fixture
def asked(org, pool, template):
    return {
        "tenant": str(org[1].pk), "pool": str(pool.pk), "profile": str(profile_of(pool, "1g.10gb").pk), "ranks": "1",
        "start": "now", "length": "2", "workload": str(template.pk), "command": "", "name": "first try", "key": "k1",
    }  # fmt: skip


def text_of(answer) -> str:
    return html.unescape(answer.content.decode())


def typed(when: dt.datetime, side: str) -> dict[str, str]:
    local = when.astimezone(zoneinfo.ZoneInfo("Europe/Vienna"))
    return {f"{side}_date": f"{local:%Y-%m-%d}", f"{side}_time": f"{local:%H:%M}"}


def at(start: dt.datetime, end: dt.datetime) -> dict[str, str]:
    return {"start": "at", "length": "until", **typed(start, "start"), **typed(end, "end")}


def test_a_booking_leads_to_its_page(page, asked, member):
    answer = page.post("/reserve/", asked)
    made = Reservation.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/reservations/R-{made.pk}/")
    assert (made.owner, made.workload.name, made.planned_seconds) == (member, "first try", 7200)
    assert "Reserved: first try." in text_of(page.get(answer["Location"]))


def test_the_same_form_sent_twice_books_once(page, asked):
    first, second = page.post("/reserve/", asked), page.post("/reserve/", asked)
    assert Reservation.objects.count() == 1
    assert first["Location"] == second["Location"]


def test_a_form_that_has_booked_is_not_taken_for_another_request(page, asked):
    page.post("/reserve/", asked)
    answer = page.post("/reserve/", asked | {"ranks": "2"})
    assert answer.status_code == 409
    text = text_of(answer)
    assert f"R-{Reservation.objects.get().pk}" in text
    key = re.search(r'name="key" value="(\w+)"', text)[1]
    assert key != "k1"
    assert page.post("/reserve/", asked | {"ranks": "2", "key": key}).status_code == 303


def test_local_times_are_turned_into_the_instants_they_name(page, asked):
    start = timezone.now().replace(second=0, microsecond=0) + dt.timedelta(days=1)
    page.post("/reserve/", asked | at(start, start + 3 * HOUR))
    made = Reservation.objects.get()
    assert (made.starts_at, made.ends_at) == (start, start + 3 * HOUR)


def test_an_own_command_runs_as_a_list_of_words(page, asked):
    page.post("/reserve/", asked | {"workload": "command", "command": "python3 -c 'print(\"a b\")'", "name": ""})
    made = Reservation.objects.get()
    assert made.workload.command == ["python3", "-c", 'print("a b")']
    assert made.workload.name == "python3"


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"ranks": "0"}, "ranks", "whole number from 1 to 64"),
        ({"ranks": "-1"}, "ranks", "whole number from 1 to 64"),
        ({"ranks": "1.5"}, "ranks", "whole number from 1 to 64"),
        ({"ranks": str(10**18)}, "ranks", "whole number from 1 to 64"),
        ({"ranks": "9" * 5000}, "ranks", ""),
        ({"ranks": ""}, "ranks", "whole number"),
        ({"length": "3000"}, "length", ""),
        ({"start": "whenever"}, "start", ""),
        ({"start": "at", "start_date": "", "start_time": ""}, "start_date", "needed"),
        ({"start": "at", "start_date": "31.12.", "start_time": "10:00"}, "start_date", "no date"),
        ({"start": "at", "start_date": "0001-01-01", "start_time": "00:00"}, "start_time", ""),
        ({"start": "at", "start_date": "9999-12-31", "start_time": "23:00"}, "start_time", ""),
        ({"workload": "command", "command": ""}, "command", "needed"),
        ({"workload": "command", "command": "echo 'a"}, "command", "quotation mark"),
        ({"workload": "command", "command": "\0"}, "command", ""),
        ({"name": "x" * 65}, "name", "64"),
        ({"name": "a\u202eb"}, "workload", "printable"),
        ({"key": "k" * 65}, "key", ""),
    ],
)
def test_what_is_malformed_is_said_beside_its_field_and_nothing_typed_is_lost(page, asked, change, field, words):
    sent = asked | change
    answer = page.post("/reserve/", sent)
    text = text_of(answer)
    assert answer.status_code == 422
    assert f'href="#f-{field}"' in text
    assert words in text
    assert Reservation.objects.count() == 0
    for name in ("name", "command", "ranks"):
        assert sent[name].replace("\0", "\ufffd") in text or "\0" in sent[name]


def test_the_first_wrong_field_has_the_focus(page, asked):
    text = text_of(page.post("/reserve/", asked | {"ranks": "0", "name": "x" * 65}))
    assert re.search(r'id="f-ranks"[^>]*aria-invalid="true"[^>]*autofocus', text)
    assert text.count("autofocus") == 1


@pytest.mark.parametrize("field", ["tenant", "pool", "profile", "workload"])
@pytest.mark.parametrize("number", ["foreign", "unknown", str(10**18), "-1", "x", "1.0", "１"])
def test_what_belongs_to_others_is_answered_like_what_does_not_exist(page, org, pool, asked, field, number):
    other = make_tenant("robotics", org[0])
    closed = make_pool_with_gpus("A30")
    foreign = {
        "tenant": other.pk,
        "pool": closed.pk,
        "profile": profile_of(closed, "1g.6gb").pk,
        "workload": Template.objects.create(tenant=other, name="secret", command=["x"]).pk,
    }
    value = {"foreign": str(foreign[field]), "unknown": str(foreign[field] + 10_000)}.get(number, number)
    answer = page.post("/reserve/", asked | {field: value})
    text = text_of(answer)
    assert answer.status_code == 422
    assert "Choose one of those that are offered." in text
    assert "secret" not in text
    assert Reservation.objects.count() == 0


def moments() -> dict[str, tuple[dt.timedelta, dt.timedelta]]:
    day = dt.timedelta(days=1)
    return {
        "in the past": (-day, -day + HOUR),
        "empty": (day, day),
        "reversed": (day + HOUR, day),
        "years long": (day, 1000 * day),
        "too far ahead": (400 * day, 400 * day + HOUR),
    }


@pytest.mark.parametrize("case", list(moments()))
def test_a_window_that_cannot_be_is_refused_with_the_field_named(page, asked, case):
    start, end = (timezone.now() + offset for offset in moments()[case])
    sent = asked | at(start, end)
    answer = page.post("/reserve/", sent)
    text = text_of(answer)
    assert answer.status_code == 422
    assert 'href="#f-start_time"' in text or 'href="#f-end_time"' in text
    assert f'value="{sent["end_date"]}"' in text
    assert page.get("/reserve/preview/", sent).status_code == 200


@pytest.mark.parametrize(
    ("date", "time", "words"), [("2027-03-28", "02:30", "does not exist"), ("2027-10-31", "02:30", "exists twice")]
)
def test_a_local_hour_that_is_not_one_instant_is_refused_with_the_reason(page, asked, date, time, words):
    answer = page.post("/reserve/", asked | {"start": "at", "start_date": date, "start_time": time})
    assert answer.status_code == 422
    assert words in text_of(answer)


def test_a_full_pool_is_answered_with_one_reason_and_ways_on_that_book_with_one_click(page, org, pool, asked):
    gpu, now = Gpu.objects.get(pool=pool), timezone.now().replace(microsecond=0)
    make_reservation(org[1], pool, "7g.80gb", window(now - HOUR, 3), places=((gpu, 0),))
    answer = page.post("/reserve/", asked)
    text = text_of(answer)
    assert answer.status_code == 409
    assert text.count('id="why"') == 1
    values = re.findall(r'name="take" value="([\d.]+)"', text)
    assert 1 <= len(values) <= 3
    assert 'value="first try"' in text
    taken = page.post("/reserve/", asked | {"take": values[0]})
    assert taken.status_code == 303
    made = Reservation.objects.latest("pk")
    assert f"{int(made.starts_at.timestamp())}.{int(made.ends_at.timestamp())}" in values[0]


@pytest.mark.parametrize(
    "take", ["x", "1.2.3", "1.1.1.99999999999.99999999999", "1.1.1.2000000000.1000000000", ".." * 50]
)
def test_an_alternative_that_was_tampered_with_books_nothing(page, asked, take):
    answer = page.post("/reserve/", asked | {"take": take, "ranks": "0"})
    assert answer.status_code == 422
    assert Reservation.objects.count() == 0


def test_a_quota_that_is_full_says_the_numbers(page, org, pool, asked):
    make_quota(org[1], pool, limit=1)
    answer = page.post("/reserve/", asked | {"ranks": "2"})
    assert answer.status_code == 409
    assert "vision-lab holds 0 of its 1" in text_of(answer)


def test_the_preview_says_where_it_would_sit_what_it_costs_and_what_stays(page, org, asked):
    make_budget(org[1], 100 * 3600)
    # Well inside one month of the budget, whatever the hour in which this runs.
    start = (timezone.now() + 32 * dt.timedelta(days=1)).replace(day=3, hour=10, minute=0, second=0, microsecond=0)
    text = text_of(page.get("/reserve/preview/", asked | at(start, start + 2 * HOUR), headers={"HX-Request": "true"}))
    assert "It fits" in text
    assert "2 slice-h" in text
    assert "98 of 100" in text
    assert "Yours: 1g.10gb" in text
    assert 'id="sizes" hx-swap-oob="morph"' in text
    assert "<html" not in text


def test_the_preview_of_a_full_window_says_why_and_disables_the_button(page, org, pool, asked):
    gpu = Gpu.objects.get(pool=pool)
    make_reservation(org[1], pool, "7g.80gb", window(timezone.now() - HOUR, 3), places=((gpu, 0),))
    text = text_of(page.get("/reserve/preview/", asked))
    assert 'id="why"' in text
    assert re.search(r"<button[^>]* disabled", text)
    assert "from " in text


def test_the_preview_of_what_is_not_a_form_is_no_error(page, asked):
    for change in ({}, {"ranks": "x"}, {"pool": "999999"}, {"start": "at"}, {"take": "1.1.1.1111111111.1111111112"}):
        answer = page.get("/reserve/preview/", change)
        assert answer.status_code == 200
        assert 'id="answer"' in answer.content.decode()


def test_the_form_takes_what_the_address_asks_for(page, pool, asked):
    wanted = profile_of(pool, "3g.40gb").pk
    text = text_of(page.get(f"/reserve/?profile={wanted}&start=at&start_date=2027-01-05&start_time=09:30&ranks=2"))
    assert re.search(rf'value="{wanted}" checked', text)
    assert 'value="2027-01-05"' in text
    assert 'name="key" value="' in text


def test_without_script_the_form_can_be_checked(page, asked):
    assert "It fits" in text_of(page.get("/reserve/", {**asked, "check": "1"}))


def test_a_viewer_cannot_book(client, org, asked):
    client.force_login(make_user("viktor", org[1], Role.VIEWER))
    assert client.post("/reserve/", asked).status_code == 403
    assert client.get("/reserve/preview/", asked).status_code == 403


def test_a_tenant_without_any_pool_is_told_so(client, org):
    client.force_login(make_user("rosa", org[1]))
    assert "No pool is open to you" in text_of(client.get("/reserve/"))


@pytest.mark.parametrize(("address", "most"), [("/", 12), ("/reserve/", 12), ("/rail/", 12), ("/reserve/preview/", 15)])
def test_the_form_and_its_answers_ask_little(page, org, asked, address, most, django_assert_max_num_queries):
    make_budget(org[1], 100 * 3600)
    page.get(address, asked)
    with django_assert_max_num_queries(most):
        assert page.get(address, asked).status_code == 200


def test_what_is_wrong_is_said_beside_its_field_while_one_types(page, asked):
    body = page.get("/reserve/preview/", asked | {"ranks": "0"}).content.decode()
    told = re.search(r'<p class="err" id="err-ranks" hx-swap-oob="morph">([^<]*)</p>', body)
    assert told and "whole number from 1" in told.group(1)
    assert '<p class="err" id="err-ranks" hx-swap-oob="morph" hidden></p>' in page.get(
        "/reserve/preview/", asked).content.decode()  # fmt: skip
    late = at(timezone.now() - 260 * HOUR, timezone.now() + HOUR)
    assert "The start is 10 d 20 h in the past." in text_of(page.get("/reserve/preview/", asked | late))
