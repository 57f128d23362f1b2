"""Twenty people want the last slice at the same instant: one gets it. With the guards off, the race is real."""

import collections
import datetime as dt
import json

import pytest
from django.test import Client
from django.utils import timezone

from portal.reservations.models import Lease
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_user, profile_of
from tests.race.unlocked import unlocked, without_turns

pytestmark = pytest.mark.django_db(transaction=True)
CLIENTS = 20
ROUNDS = 50
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def post():
    """Each of twenty signed-in people posts the same window of a round to the API; the answer's status, as text."""
    root, team, _ = make_org()
    pool = make_pool_with_gpus("H100", 1)
    make_quota(root, pool, 10_000)
    wanted = {"tenant": team.pk, "pool": pool.pk, "profile": profile_of(pool, "7g.80gb").name, "ranks": 1,
              "workload": {"name": "train", "command": ["train"]}}  # fmt: skip
    first = timezone.now().replace(microsecond=0) + HOUR
    clients = [Client(raise_request_exception=False) for _ in range(CLIENTS)]
    for client in clients:
        client.force_login(make_user(tenant=team))

    def book(number: int, round_number: int) -> str:
        start = first + round_number * HOUR
        body = wanted | {"start": start.isoformat(), "end": (start + HOUR).isoformat()}
        answer = clients[number].post("/api/v1/reservations/", json.dumps(body), content_type="application/json")
        return str(answer.status_code)

    return book


@pytest.mark.timeout(900)
@pytest.mark.case("R-08", "R-09")
def test_twenty_clients_on_the_last_slice_have_exactly_one_winner_each_round(race, post):
    for round_number in range(ROUNDS):
        outcomes = collections.Counter(race(lambda number, now=round_number: post(number, now), CLIENTS))
        assert outcomes == {"201": 1, "409": CLIENTS - 1}, f"round {round_number}"
    assert Lease.objects.count() == ROUNDS


def test_without_turns_in_the_process_the_pools_lock_alone_has_one_winner_each_round(race, post, monkeypatch):
    """As for as many processes as there are clients."""
    without_turns(monkeypatch)
    for round_number in range(10):
        outcomes = collections.Counter(race(lambda number, now=round_number: post(number, now), CLIENTS))
        assert outcomes == {"201": 1, "409": CLIENTS - 1}, f"round {round_number}"
    assert Lease.objects.count() == 10


def test_one_request_sent_four_times_at_once_with_its_key_books_once_and_says_so_to_one(race):
    root, team, _ = make_org()
    pool = make_pool_with_gpus("H100", 1)
    make_quota(root, pool, 10_000)
    person, start = make_user(tenant=team), timezone.now().replace(microsecond=0) + HOUR
    clients = [Client(raise_request_exception=False) for _ in range(4)]
    for client in clients:
        client.force_login(person)
    for round_number in range(10):
        body = {"tenant": team.pk, "pool": pool.pk, "profile": "1g.10gb", "ranks": 1,
                "workload": {"name": "train", "command": ["train"]}, "start": start.isoformat(),
                "end": (start + HOUR).isoformat()}  # fmt: skip
        start += HOUR

        def post(number: int, body=body, key=f"round {round_number}") -> str:
            answer = clients[number].post(
                "/api/v1/reservations/", json.dumps(body), content_type="application/json", HTTP_IDEMPOTENCY_KEY=key
            )
            return f"{answer.status_code} {answer.json().get('id')}"

        outcomes = sorted(race(post, 4))
        assert [outcome.split()[0] for outcome in outcomes] == ["200", "200", "200", "201"]
        assert len({outcome.split()[1] for outcome in outcomes}) == 1
    assert Lease.objects.count() == 10


def test_without_the_lock_the_constraint_alone_still_has_one_winner(race, post, monkeypatch):
    unlocked(monkeypatch)
    for round_number in range(5):
        outcomes = race(lambda number, now=round_number: post(number, now), CLIENTS)
        assert outcomes.count("201") == 1 and set(outcomes) <= {"201", "409", "503"}, outcomes


def test_control_with_lock_and_constraint_off_the_slice_is_sold_more_than_once(
    race, post, monkeypatch, without_exclusion
):
    unlocked(monkeypatch)
    sold = [race(lambda number, now=now: post(number, now), CLIENTS).count("201") for now in range(5)]
    assert max(sold) > 1, f"the race cannot happen, so the tests above prove nothing: {sold}"
