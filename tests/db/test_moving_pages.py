"""The pages of changing one's mind: what is possible and what it costs, before it is done; refusals beside the form."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from portal.quotas.policy_changes import set_policy
from portal.reservations.models import Reservation, State
from portal.reservations.trying import free_until, outcome_of
from tests.db.house import House, bound, span, windows
from tests.factories import HOUR, make_budget, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def house():
    return House(gpus=1)


def page(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def text_of(answer) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.content.decode()))


def typed(start, end) -> dict[str, str]:
    values = {}
    for side, when in (("start", start), ("end", end)):
        local = timezone.localtime(when)
        values |= {f"{side}_date": f"{local:%Y-%m-%d}", f"{side}_time": f"{local:%H:%M}"}
    return values


def address(reservation) -> str:
    return f"/reservations/{reservation.number}/change/"


def test_the_page_says_how_long_its_place_is_free_and_what_each_extension_costs(house):
    running = house.run(house.book("4g.40gb", start=house.now))
    follower = house.book("7g.80gb", start=running.ends_at + 3 * HOUR)
    assert free_until(running) == follower.starts_at
    answer = page(house.owner).get(address(running))
    shown = text_of(answer)
    assert answer.status_code == 200
    for words in ("4 slice-h more", "8 slice-h more", "12 slice-h more", "Extend by 3 h", "its start stays"):
        assert words in shown, words
    assert 'name="start_time"' not in answer.content.decode()


def test_an_extension_by_one_click_is_made_and_one_into_the_next_lease_is_told_beside_the_form(house):
    running = house.run(house.book("4g.40gb", start=house.now))
    house.book("7g.80gb", start=running.ends_at + HOUR)
    client = page(house.owner)
    assert "disabled" in client.get(address(running)).content.decode(), "two hours are not to be had"
    refused = client.post(address(running), {"extend": "7200"})
    assert refused.status_code == 409 and "Its place is free until" in text_of(refused)
    assert 'id="change-form"' in refused.content.decode()
    made = client.post(address(running), {"extend": "3600"})
    assert (made.status_code, made["Location"]) == (303, f"/reservations/{running.number}/")
    assert windows(running) == {(house.now, house.now + 2 * HOUR)}


@pytest.mark.parametrize("seconds", ["0", "-3600", "1e9", "9" * 30, "x", "٣٦٠٠"])
def test_an_extension_by_no_sensible_number_is_bad_input(house, seconds):
    mine = house.book()
    assert page(house.owner).post(address(mine), {"extend": seconds}).status_code == 422
    assert windows(mine) == {(house.start, house.start + HOUR)}


def test_a_move_is_shown_before_it_is_made_and_changes_nothing_yet(house):
    make_budget(house.team, 100 * 3600)
    mine = house.book("4g.40gb")
    wanted = typed(house.start + 3 * HOUR, house.start + 6 * HOUR)
    client = page(house.owner)
    shown = client.get(address(mine), {"name": "train", **wanted})
    assert "Possible" in text_of(shown) and "8 slice-h" in text_of(shown) and "88 of 100" in text_of(shown)
    assert windows(mine) == {(house.start, house.start + HOUR)}
    fragment = client.get(address(mine), wanted, headers={"HX-Request": "true"})
    assert fragment.content.decode().lstrip().startswith('<div class="stack" id="outcome"')
    assert client.post(address(mine), {"name": "night run", **wanted}).status_code == 303
    mine.refresh_from_db()
    assert (mine.starts_at, mine.ends_at) == (house.start + 3 * HOUR, house.start + 6 * HOUR)
    assert mine.workload.name == "night run" or Reservation.objects.get(pk=mine.pk).workload.name == "night run"


def test_what_is_refused_keeps_everything_typed(house):
    mine = house.book("7g.80gb")
    other = house.book("7g.80gb", start=house.start + 5 * HOUR)
    wanted = {"name": "my new name", **typed(other.starts_at, other.ends_at)}
    answer = page(house.owner).post(address(mine), wanted)
    body = answer.content.decode()
    assert answer.status_code == 409 and "has no room" in text_of(answer)
    assert all(f'value="{value}"' in body for value in wanted.values())
    mine.refresh_from_db()
    assert mine.starts_at == house.start and mine.workload.name == "train"


@pytest.mark.parametrize("wrong", [{"end_time": "25:00"}, {"end_date": "x"}, {"start_time": ""}, {"name": "a\x07b"}])
def test_malformed_values_are_told_beside_their_field(house, wrong):
    mine = house.book()
    values = {"name": "train", **typed(house.start, house.start + 2 * HOUR), **wrong}
    answer = page(house.owner).post(address(mine), values)
    assert answer.status_code == 422 and 'aria-invalid="true"' in answer.content.decode()
    assert windows(mine) == {(house.start, house.start + HOUR)}


def test_the_seconds_of_a_window_are_not_lost_by_a_form_that_shows_minutes(house):
    running = house.run(house.book(start=house.now))
    values = {"name": "other", **typed(running.starts_at, running.ends_at)}
    assert page(house.owner).post(address(running), values).status_code == 303
    assert windows(running) == {(house.now, house.now + HOUR)}


def test_what_is_over_offers_nothing_and_what_is_not_mine_is_not_there(house):
    mine = house.book()
    assert page(make_user(tenant=house.team)).get(address(mine)).status_code == 404
    Reservation.objects.filter(pk=mine.pk).update(state=State.ENDED, end_reason="completed")
    answer = page(house.owner).get(address(mine))
    assert (
        "what is finished stays as it is" in text_of(answer)
        and "<form" not in answer.content.decode().split("<main")[1]
    )
    assert page(house.owner).post(address(mine), {"extend": "3600"}).status_code == 409


def test_the_reservation_page_says_that_it_waits_until_when_and_why(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=3600)
    held = house.book("4g.40gb")
    shown = page(house.owner).get(f"/reservations/{held.number}/")
    assert "Waits for approval. 4 slice-h is above the 1 slice-h that vision-lab gives" in text_of(shown)
    assert "#a-" not in shown.content.decode()
    assert f"/approvals/#a-{held.approval_id}" in page(house.lead).get(f"/reservations/{held.number}/").content.decode()


def test_an_outcome_leaves_nothing_behind(house):
    mine = house.book("4g.40gb")
    before = [list(model.objects.order_by("pk").values()) for model in (Reservation, type(bound(mine)[0]))]
    assert outcome_of(mine, span(house.start, 5), house.owner).refusal is None
    assert outcome_of(mine, span(house.now - 9 * HOUR, 5), house.owner).refusal is not None
    assert before == [list(model.objects.order_by("pk").values()) for model in (Reservation, type(bound(mine)[0]))]
