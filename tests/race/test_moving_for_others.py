"""Two bookings that both want the same planned lease moved, at the same moment."""

import pytest
from psycopg2.extras import NumericRange

from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Lease
from tests.db.house import House, bound, windows
from tests.factories import HOUR
from tests.race.unlocked import without_turns

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
ROUNDS = 4


class Round:
    """An hour of two GPUs: a 4g.40gb fits only where a small lease lies; on the other GPU one lies already."""

    def __init__(self, house: House, number: int) -> None:
        self.house, self.start = house, house.start + 4 * number * HOUR
        self.first, self.second = house.pool.gpus.order_by("pk")
        for profile, gpu in (("4g.40gb", self.second), ("1g.10gb", self.first)):
            self.small = house.book(profile, start=self.start, hours=2)
            size = 4 if profile == "4g.40gb" else 1
            self.small.leases.update(gpu=gpu, span=NumericRange(0, size, "[)"))
        self.promised = windows(self.small)

    def book(self, start, hours: float) -> str:
        try:
            self.house.book("4g.40gb", start=start, hours=hours)
        except ReservationRefused as refusal:
            return refusal.code
        return "booked"

    def assert_kept(self) -> None:
        (lease,) = bound(self.small)
        assert (lease.gpu_id, lease.span.lower) != (self.first.pk, 0)
        assert windows(self.small) == self.promised


@pytest.fixture
def house(monkeypatch):
    without_turns(monkeypatch)
    return House(gpus=2, nodes=2)


def test_for_the_same_window_one_is_booked_and_the_lease_moves_once(race, house):
    for number in range(ROUNDS):
        this = Round(house, number)
        outcomes = race(lambda _n, this=this: this.book(this.start, 2), 4)
        assert sorted(outcomes) == ["booked", *["no_capacity"] * 3]
        this.assert_kept()
    assert Lease.objects.count() == 3 * ROUNDS


def test_for_windows_beside_each_other_both_are_booked(race, house):
    for number in range(ROUNDS):
        this = Round(house, number)
        outcomes = race(lambda half, this=this: this.book(this.start + half * HOUR, 1), 2)
        assert outcomes == ["booked", "booked"]
        this.assert_kept()
