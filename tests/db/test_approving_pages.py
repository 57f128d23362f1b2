"""The leads' page: who asks what, what it costs whom, and both answers without JavaScript."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.notices.selectors import unread_count
from portal.quotas.policy_changes import set_policy
from portal.reservations.changing import release_reservation
from portal.reservations.models import Approval, Reservation, State
from tests.db.house import House, span
from tests.factories import HOUR, make_budget, make_reservation

pytestmark = pytest.mark.django_db


@pytest.fixture
def house():
    house = House(gpus=1)
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=7 * 3600)
    return house


def page(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def text_of(answer) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.content.decode()))


def test_a_question_shows_who_asks_what_its_price_and_what_stays_of_the_budget(house):
    make_budget(house.team, 100 * 3600)
    house.book("7g.80gb", hours=2)
    house.book("1g.10gb", start=house.start + 3 * HOUR)
    shown = text_of(page(house.lead).get("/approvals/"))
    for words in ("owner of vision-lab asks for 1 × 7g.80gb", "Price in slice-h 14", "asks a lead above 7",
                  "besides this 1", "Left of 100 after this 85", "frees its hold"):  # fmt: skip
        assert words in shown, words


def test_the_inbox_of_a_lead_has_what_waits_above_the_notices_and_nobody_elses_has(house):
    held = house.book("7g.80gb", hours=2)
    for person, listed in ((house.lead, True), (house.admin, True), (house.owner, False)):
        body = page(person).get("/inbox/").content.decode()
        assert (f"/approvals/#a-{held.approval_id}" in body) == listed


def test_approving_and_refusing_lead_back_to_the_list(house):
    first, second = house.book("7g.80gb", hours=2), house.book("7g.80gb", start=house.start + 5 * HOUR, hours=2)
    client = page(house.lead)
    answer = client.post(f"/approvals/{first.approval_id}/approve/", {"note": ""})
    assert (answer.status_code, answer["Location"]) == (303, "/approvals/")
    assert client.post(f"/approvals/{second.approval_id}/refuse/", {"note": "not now"}).status_code == 303
    states = dict(Reservation.objects.values_list("pk", "state"))
    assert states == {first.pk: State.CONFIRMED, second.pk: State.REFUSED}
    decided = text_of(client.get("/approvals/?show=decided"))
    assert "Approved" in decided and "not now" in decided
    assert text_of(client.get(f"/reservations/{second.number}/")).count("not now") == 1


def test_a_refusal_without_a_note_asks_for_one_beside_its_field(house):
    held = house.book("7g.80gb", hours=2)
    answer = page(house.lead).post(f"/approvals/{held.approval_id}/refuse/", {"note": " "})
    assert answer.status_code == 422 and 'aria-invalid="true"' in answer.content.decode()
    held.refresh_from_db()
    assert held.state == State.REQUESTED


def test_who_comes_second_is_told_what_was_decided(house):
    held = house.book("7g.80gb", hours=2)
    client = page(house.lead)
    client.post(f"/approvals/{held.approval_id}/approve/")
    answer = client.post(f"/approvals/{held.approval_id}/refuse/", {"note": "no"})
    assert answer.status_code == 409 and "decided already: approved" in text_of(answer)


@pytest.mark.parametrize("address", ["/approvals/", "/inbox/", "/api/v1/approvals/?limit=200"])
def test_lists_of_questions_cost_the_same_number_of_queries_whatever_their_number(house, address):
    make_budget(house.team, 10**9)
    make_budget(house.root, 10**9)
    client, counts = page(house.lead), []
    for size in (1, 25, 200):
        for number in range(Approval.objects.count(), size):
            start = house.start + number * 2 * HOUR
            held = make_reservation(
                house.team, house.pool, "1g.10gb", span(start, 1), places=((house.pool.gpus.get(), 0),)
            )
            question = Approval.objects.create(
                tenant=house.team, asked_by=house.owner, expires_at=start, price_slice_seconds=9,
                threshold_slice_seconds=1)  # fmt: skip
            Reservation.objects.filter(pk=held.pk).update(
                state=State.REQUESTED, approval=question, hold_expires_at=start)  # fmt: skip
        client.get(address)
        with CaptureQueriesContext(connection) as found:
            assert client.get(address).status_code == 200
        counts.append(len(found))
    assert len(set(counts)) == 1 and counts[0] <= 14, counts


def test_the_navigation_of_a_lead_counts_the_open_questions_and_nobody_else_has_the_entry(house):
    first = house.book("7g.80gb", hours=2)
    house.book("7g.80gb", start=house.start + 5 * HOUR, hours=2)
    for person, number in ((house.lead, 2), (house.admin, 2), (house.owner, None)):
        body = page(person).get("/fleet/").content.decode()
        assert ('href="/approvals/"' in body) == bool(number)
        assert (f'id="asked-side">{number}<' in body) == bool(number)
    page(house.lead).post(f"/approvals/{first.approval_id}/approve/", {"note": ""})
    counts = page(house.lead).get("/inbox/count/").content.decode()
    assert 'id="asked-side" hx-swap-oob="true">1<' in counts
    assert "asked-side" not in page(house.owner).get("/inbox/count/").content.decode()


def test_what_is_answered_or_withdrawn_is_no_longer_unread_and_home_shows_what_still_waits(house):
    first, second = house.book("7g.80gb", hours=2), house.book("7g.80gb", start=house.start + 5 * HOUR, hours=2)
    lead = page(house.lead)
    assert f"/approvals/#a-{first.approval_id}" in lead.get("/").content.decode()
    assert unread_count(house.lead.pk) == 2
    lead.post(f"/approvals/{first.approval_id}/approve/", {"note": ""})
    assert unread_count(house.lead.pk) == 1
    release_reservation(reservation=second, actor=house.owner)
    assert unread_count(house.lead.pk) == 0
    assert "/approvals/#a-" not in lead.get("/").content.decode()
