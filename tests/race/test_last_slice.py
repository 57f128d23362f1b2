"""Twenty people want the last slice at the same instant: one gets it. With the guards off, the race is real."""

import datetime as dt

import pytest
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.reservations import booking
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Lease
from portal.workloads.drafts import WorkloadDraft
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_user, profile_of

pytestmark = pytest.mark.django_db(transaction=True)
CLIENTS = 20
ROUNDS = 50
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def wanted():
    root, team, _ = make_org()
    pool = make_pool_with_gpus("H100", 1)
    make_quota(root, pool, 10_000)
    people = [make_user(tenant=team) for _ in range(CLIENTS)]
    first = timezone.now().replace(microsecond=0) + HOUR

    def book(number: int, round_number: int) -> str:
        start = first + round_number * HOUR
        try:
            booking.book_reservation(
                created_by=people[number],
                owner=people[number],
                tenant=team,
                pool=pool,
                profile=profile_of(pool, "7g.80gb"),
                ranks=1,
                during=DateTimeTZRange(start, start + HOUR, "[)"),
                workload=WorkloadDraft("train", "", ("train",)),
            )
        except ReservationRefused as refusal:
            return refusal.code
        return "booked"

    return book


def test_twenty_clients_on_the_last_slice_have_exactly_one_winner_each_round(race, wanted):
    for round_number in range(ROUNDS):
        outcomes = race(lambda number, now=round_number: wanted(number, now), CLIENTS)
        assert sorted(outcomes) == ["booked"] + ["no_capacity"] * (CLIENTS - 1), f"round {round_number}"
    assert Lease.objects.count() == ROUNDS


def test_without_the_lock_the_constraint_alone_still_has_one_winner(race, wanted, monkeypatch):
    monkeypatch.setattr(booking, "lock_pool", lambda pool_id: Pool.objects.get(pk=pool_id))
    for round_number in range(5):
        outcomes = race(lambda number, now=round_number: wanted(number, now), CLIENTS)
        assert outcomes.count("booked") == 1 and set(outcomes) <= {"booked", "no_capacity", "busy"}, outcomes


def test_control_with_lock_and_constraint_off_the_slice_is_sold_more_than_once(
    race, wanted, monkeypatch, without_exclusion
):
    monkeypatch.setattr(booking, "lock_pool", lambda pool_id: Pool.objects.get(pk=pool_id))
    sold = [race(lambda number, now=now: wanted(number, now), CLIENTS).count("booked") for now in range(5)]
    assert max(sold) > 1, f"the race cannot happen, so the tests above prove nothing: {sold}"
