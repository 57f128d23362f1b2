"""One unit of quota is left and two want it, by whatever path takes quota: one gets it. Without the lock both do."""

import datetime as dt
import itertools
from collections.abc import Callable

import pytest
from django.utils import timezone

from portal.quotas.models import Policy
from portal.reservations.booking import book_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Reservation
from portal.reservations.moving import change_window
from portal.reservations.selectors import peak_weight_held
from portal.workloads.drafts import WorkloadDraft
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_tenant, make_user, profile_of, window
from tests.race.unlocked import unlocked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
ROUNDS = 3
DRAFT = WorkloadDraft("train", "", ("true",))

Act = Callable[[], Reservation]


class LastUnit:
    """A team that may hold one, in a pool with room for many. Each round has a day of its own."""

    def __init__(self) -> None:
        root, self.team, _ = make_org()
        self.pool = make_pool_with_gpus("H100", 2)
        make_quota(root, self.pool, 14)
        make_quota(self.team, self.pool, 1)
        self.asking = make_tenant("asks-its-lead", self.team)
        Policy.objects.create(tenant=self.asking, approval_above_slice_seconds=1)
        self.first = timezone.now().replace(minute=0, second=0, microsecond=0) + 24 * HOUR

    def contested(self, number: int):
        return window(self.first + number * dt.timedelta(days=1), 1)

    def _book(self, during, tenant) -> Reservation:
        owner = make_user(tenant=tenant)
        return book_reservation(
            created_by=owner, owner=owner, tenant=tenant, pool=self.pool, profile=profile_of(self.pool, "1g.10gb"),
            ranks=1, during=during, workload=DRAFT)  # fmt: skip

    def create(self, number: int, place: int) -> Act:
        return lambda: self._book(self.contested(number), self.team)

    def ask(self, number: int, place: int) -> Act:
        """What waits for its lead's answer holds its place, and so its quota."""
        return lambda: self._book(self.contested(number), self.asking)

    def extend(self, number: int, place: int) -> Act:
        """From the hour before the contested one into it."""
        hour = self.contested(number)
        mine = self._book(window(hour.lower - HOUR, 1), self.team)
        return lambda: self._change(mine, window(hour.lower - HOUR, 2))

    def move(self, number: int, place: int) -> Act:
        hour = self.contested(number)
        mine = self._book(window(hour.lower + (3 + place) * HOUR, 1), self.team)
        return lambda: self._change(mine, hour)

    def _change(self, mine: Reservation, during) -> Reservation:
        return change_window(reservation=mine, during=during, actor=mine.owner)

    def held(self, number: int) -> int:
        return peak_weight_held(self.team, self.pool, self.contested(number))


@pytest.fixture
def last_unit(transactional_db) -> LastUnit:
    return LastUnit()


def outcome(act: Act) -> str:
    try:
        act()
    except ReservationRefused as refusal:
        return refusal.code
    return "won"


PATHS = ("create", "ask", "extend", "move")
PAIRS = [pair for pair in itertools.combinations_with_replacement(PATHS, 2) if pair != ("extend", "extend")]


@pytest.mark.case("Q-09")
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_of_two_that_want_the_last_unit_one_gets_it_by_whatever_path(race, last_unit, pair):
    for number in range(ROUNDS):
        acts = [getattr(last_unit, path)(number, place) for place, path in enumerate(pair)]
        outcomes = race(lambda place, acts=acts: outcome(acts[place]), 2)
        assert sorted(outcomes) == ["quota_exceeded", "won"], f"round {number}"
        assert last_unit.held(number) == 1


@pytest.mark.case("Q-09")
def test_control_without_the_lock_the_last_unit_is_sold_twice(race, last_unit, monkeypatch, without_exclusion):
    unlocked(monkeypatch)
    held = []
    for number in range(10):
        acts = [last_unit.create(number, place) for place in range(8)]
        race(lambda place, acts=acts: outcome(acts[place]), 8)
        held.append(last_unit.held(number))
    assert max(held) > 1, f"the race cannot happen, so the tests above prove nothing: {held}"
