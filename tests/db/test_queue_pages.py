"""Asking as soon as possible and waiting, in the pages and through the API."""

import datetime as dt
import html
import json

import pytest
from django.test import Client
from django.utils import timezone

from portal.inventory.models import Gpu, Pool
from portal.reservations.changing import release_reservation
from portal.reservations.models import Reservation, State
from portal.reservations.queue_serving import serve_queue
from portal.workloads.models import Template
from tests.db.test_queue import HOUR, ask, hold, now, place, unhurried
from tests.db.test_queue_waitlist import join
from tests.factories import make_tenant, make_user, profile_of

__all__ = ["place", "unhurried"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client: Client, place):
    client.force_login(place["owner"])
    return client


@pytest.fixture
def asked(place):
    template = Template.objects.create(tenant=place["root"], name="Training run", command=["python3", "-c", "pass"])
    return {
        "tenant": str(place["tenant"].pk), "pool": str(place["pool"].pk),
        "profile": str(profile_of(place["pool"], "7g.80gb").pk), "ranks": "1", "start": "soon", "length": "4",
        "workload": str(template.pk), "command": "", "name": "first try", "key": "k1",
    }  # fmt: skip


def text_of(answer) -> str:
    return html.unescape(answer.content.decode())


def test_the_preview_of_as_soon_as_possible_says_when_it_would_start_why_and_for_how_much(page, place, asked):
    busy = hold(place, now() - HOUR, 10)
    said = text_of(page.get("/reserve/preview/", asked))
    assert f"Estimated start {timezone.localtime(busy.ends_at):%H:%M}" in said or "Estimated start" in said
    assert "No room until" in said and "Queue 7g.80gb" in said and "28" in said
    assert not Reservation.objects.filter(state=State.QUEUED).exists()


def test_the_preview_of_what_has_room_says_that_it_starts_at_once(page, asked):
    said = text_of(page.get("/reserve/preview/", asked))
    assert "It is reserved for you at once." in said and "Reserve 7g.80gb" in said


def test_asking_as_soon_as_possible_queues_and_its_page_says_what_it_waits_for(page, place, asked):
    hold(place, now() - HOUR, 10)
    answer = page.post("/reserve/", asked, follow=True)
    waiting = Reservation.objects.get(state=State.QUEUED)
    said = text_of(answer)
    assert answer.redirect_chain[0] == (f"/reservations/R-{waiting.pk}/", 303)
    assert "In the queue" in said and "number 1 in line" in said and "No room until" in said
    assert "Leave the queue…" in said
    again = page.post("/reserve/", asked)
    assert (again.status_code, Reservation.objects.filter(state=State.QUEUED).count()) == (303, 1)


def test_as_soon_as_possible_wants_a_length_and_no_end(page, asked):
    answer = page.post("/reserve/", asked | {"length": "until", "end_date": "2027-01-01", "end_time": "10:00"})
    assert answer.status_code == 422 and "Choose for how long" in text_of(answer)


def test_a_refused_window_offers_its_waitlist_and_the_queue(page, place, asked):
    hold(place, now() - HOUR, 10)
    refused = page.post("/reserve/", asked | {"start": "now"})
    said = text_of(refused)
    assert refused.status_code == 409
    assert "Join the waitlist for this window" in said and "Start as soon as possible" in said
    waits = page.post("/reserve/", asked | {"start": "now", "key": "k2", "waitlist": "1"})
    assert waits.status_code == 303
    assert Reservation.objects.get(state=State.QUEUED).wait.fixed
    page.post("/reserve/", asked | {"start": "now", "key": "k3", "queue": "1"})
    assert Reservation.objects.filter(state=State.QUEUED, wait__fixed=False).count() == 1


def test_who_leaves_the_queue_does_so_on_the_page(page, place):
    hold(place, now() - HOUR, 10)
    waiting = ask(place)
    assert "Its place in line is given up" in text_of(page.get(f"/reservations/{waiting.number}/release/"))
    assert page.post(f"/reservations/{waiting.number}/release/").status_code == 303
    waiting.refresh_from_db()
    assert waiting.state == State.CANCELLED


@pytest.fixture
def offered(place):
    taken = hold(place, now() + 24 * HOUR, 4, owner=place["owner"], tenant=place["tenant"])
    waiting = join(place, taken.during, owner=place["owner"])
    release_reservation(reservation=taken, actor=place["owner"])
    serve_queue(place["pool"].pk)
    return waiting


def test_an_offer_stands_on_home_and_on_its_page_and_is_accepted_there(page, offered):
    assert "Offered to you: 7g.80gb" in text_of(page.get("/"))
    assert "Offered to you: 7g.80gb" in text_of(page.get(f"/reservations/{offered.number}/"))
    assert page.post(f"/reservations/{offered.number}/accept/").status_code == 303
    offered.refresh_from_db()
    assert offered.state == State.CONFIRMED
    assert "Offered to you" not in text_of(page.get("/"))
    again = page.post(f"/reservations/{offered.number}/accept/", follow=True)
    assert "Nothing is offered to" in text_of(again)


def test_an_offer_is_declined_on_its_page(page, offered):
    assert page.post(f"/reservations/{offered.number}/decline/").status_code == 303
    offered.refresh_from_db()
    assert offered.state == State.CANCELLED


def test_home_lists_what_waits_with_its_estimate_and_reason(page, place):
    hold(place, now() - HOUR, 10)
    ask(place)
    said = text_of(page.get("/"))
    assert "in about" in said and "No room until" in said


def test_the_queue_names_own_requests_and_not_those_of_others(page, place):
    hold(place, now() - HOUR, 10)
    other = make_tenant("secret-lab", place["root"])
    mine, theirs = ask(place), ask(place, tenant=other)
    said = text_of(page.get(f"/queue/?pool={place['pool'].pk}"))
    assert f"/reservations/{mine.number}/" in said and "vision-lab" in said
    assert f"/reservations/{theirs.number}/" not in said and "secret-lab" not in said
    assert said.count("another tenant") >= 1
    assert page.get("/queue/?pool=999999").status_code == 404


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_the_queue_asks_as_much_for_many_as_for_one(page, place, rows, django_assert_max_num_queries):
    hold(place, now() - HOUR, 10)
    first = ask(place)
    for number in range(1, rows):
        copy_of(first, number)
    page.get("/queue/")
    with django_assert_max_num_queries(12):
        said = text_of(page.get("/queue/"))
    assert said.count("<tr><td") == rows


def copy_of(reservation: Reservation, number: int) -> None:
    wait, workload = reservation.wait, reservation.workload
    workload.pk = None
    workload.save(force_insert=True)
    reservation.pk, reservation.workload = None, workload
    reservation.save(force_insert=True)
    wait.pk, wait.reservation, wait.since = None, reservation, wait.since + dt.timedelta(seconds=number)
    wait.save(force_insert=True)


@pytest.fixture
def api(page, place):
    body = {
        "tenant": place["tenant"].pk, "pool": place["pool"].pk, "profile": "7g.80gb",
        "workload": {"name": "train", "command": ["train"]},
    }  # fmt: skip

    def post(address="/api/v1/reservations/", **more):
        return page.post(address, json.dumps(body | more), content_type="application/json")

    return post


def test_a_program_asks_for_seconds_and_is_queued_with_the_reason(api, place):
    busy = hold(place, now() - HOUR, 10)
    answer = api(seconds=4 * 3600)
    told = answer.json()
    assert (answer.status_code, told["state"], told["leases"]) == (201, "queued", [])
    assert told["wait"]["reason"] == "no_room" and told["wait"]["message"].startswith("No room until")
    assert dt.datetime.fromisoformat(told["wait"]["estimated_at"]) == busy.ends_at
    assert api(seconds=60, give_up_at="2020-01-01T00:00:00Z").status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"start": "2027-01-01T00:00:00Z"},
        {"seconds": 0},
        {"seconds": 3600, "start": "2027-01-01T00:00:00Z", "end": "2027-01-01T01:00:00Z"},
        {"seconds": 3600, "waitlist": True},
        {"seconds": 3600, "not_before": "noon"},
        {"seconds": 2**31 - 1},
    ],
)
def test_a_request_with_half_a_window_is_malformed(api, wrong):
    assert api(**wrong).status_code == 422


def test_a_program_joins_a_waitlist_and_takes_or_declines_what_is_offered(api, place):
    taken = hold(place, now() + 24 * HOUR, 4, owner=place["owner"], tenant=place["tenant"])
    window = {"start": taken.starts_at.isoformat(), "end": taken.ends_at.isoformat(), "waitlist": True}
    first, second = api(**window).json(), api(**window).json()
    assert (first["state"], first["wait"]["fixed"]) == ("queued", True)
    assert api(f"/api/v1/reservations/{first['id']}/accept/").status_code == 409
    release_reservation(reservation=taken, actor=place["owner"])
    serve_queue(place["pool"].pk)
    declined = api(f"/api/v1/reservations/{first['id']}/decline/")
    assert (declined.status_code, declined.json()["state"]) == (200, "cancelled")
    accepted = api(f"/api/v1/reservations/{second['id']}/accept/")
    assert (accepted.status_code, accepted.json()["state"], accepted.json()["wait"]) == (200, "confirmed", None)


def test_offers_of_others_do_not_exist(offered, place):
    stranger = Client()
    stranger.force_login(make_user(tenant=make_tenant("elsewhere", place["root"])))
    for address in (f"/reservations/{offered.number}/accept/", f"/api/v1/reservations/{offered.pk}/decline/"):
        assert stranger.post(address).status_code == 404
    assert Gpu.objects.count() == 1


def test_the_page_opens_on_the_pool_where_the_reader_waits_and_counts_each_line(page, place):
    Pool.objects.create(name="A pool before it", gpu_model=place["pool"].gpu_model, mig=True)
    assert 'aria-current="true">A pool before it' in text_of(page.get("/queue/"))
    hold(place, now() - HOUR, 10)
    ask(place)
    shown = text_of(page.get("/queue/"))
    assert f'aria-current="true">{place["pool"].name}<span class="count">1' in shown
