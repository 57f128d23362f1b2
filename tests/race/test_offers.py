"""An offer has one end: whoever comes first under the pool's lock decides, and nothing is half done."""

import collections
import datetime as dt

import pytest
from django.utils import timezone

from portal.reservations import queue_serving, waitlist
from portal.reservations.booking import book_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import LIVE, Lease, Reservation, State, Wait
from portal.reservations.queue_serving import serve_queue
from portal.reservations.waitlist import accept_offer, decline_offer, join_waitlist, lapse_offers
from portal.workloads.drafts import WorkloadDraft
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_user, profile_of, window

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
HOUR = dt.timedelta(hours=1)
RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))
ROUNDS = 5


class Slot:
    """One GPU, one window tomorrow, taken; people who wait for it."""

    def __init__(self) -> None:
        root, self.team, _ = make_org()
        self.pool = make_pool_with_gpus("H100", 1)
        make_quota(root, self.pool, 7)
        self.first = timezone.now().replace(microsecond=0) + 24 * HOUR

    def what(self, number: int) -> dict:
        owner = make_user(tenant=self.team)
        return {
            "created_by": owner, "owner": owner, "tenant": self.team, "pool": self.pool, "ranks": 1,
            "profile": profile_of(self.pool, "7g.80gb"), "workload": RUN,
            "during": window(self.first + number * HOUR, 1)}  # fmt: skip

    def taken_and_wanted(self, number: int, waiting: int = 2) -> tuple[Reservation, list[Reservation]]:
        return book_reservation(**self.what(number)), [join_waitlist(**self.what(number)) for _ in range(waiting)]

    def offered(self, number: int, waiting: int = 2) -> list[Reservation]:
        taken, waits = self.taken_and_wanted(number, waiting)
        release_reservation(reservation=taken, actor=taken.owner)
        assert serve_queue(self.pool.pk) == 1
        return [Reservation.objects.get(pk=one.pk) for one in waits]


@pytest.fixture
def slot(transactional_db, monkeypatch) -> Slot:
    monkeypatch.setattr(queue_serving, "PASS_SECONDS", 120.0)
    return Slot()


def outcome(act) -> str:
    try:
        act()
    except ReservationRefused as refusal:
        return refusal.code
    return "done"


def bound(reservation: Reservation) -> int:
    return Lease.objects.filter(reservation=reservation, state__in=LIVE).count()


def test_of_two_who_accept_at_once_one_does(race, slot):
    for number in range(ROUNDS):
        first, _second = slot.offered(number)
        told = race(lambda _n, one=first: outcome(lambda: accept_offer(reservation=one, actor=one.owner)), 2)
        assert sorted(told) == ["done", "state_conflict"]
        assert bound(first) == 1


def test_accepting_and_declining_at_once_ends_in_one_of_both(race, slot):
    acts = [accept_offer, decline_offer]
    for number in range(ROUNDS):
        first, second = slot.offered(number)
        told = race(lambda n, one=first: outcome(lambda: acts[n](reservation=one, actor=one.owner)), 2)
        assert sorted(told) == ["done", "state_conflict"]
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.state == State.CONFIRMED) != (second.hold_expires_at is not None)
        assert bound(first) + bound(second) == 1


def test_an_offer_that_lapses_while_it_is_accepted_is_either_taken_or_passed_on(race, slot):
    seen = collections.Counter()
    for number in range(ROUNDS):
        first, second = slot.offered(number)
        late = first.hold_expires_at
        acts = [lambda one=first: accept_offer(reservation=one, actor=one.owner), lambda at=late: lapse_offers(at)]
        race(lambda n, acts=acts: outcome(acts[n]), 2)
        first.refresh_from_db()
        second.refresh_from_db()
        taken, passed_on = first.state == State.CONFIRMED, second.hold_expires_at is not None
        assert taken != passed_on
        assert bound(first) + bound(second) == 1
        seen["taken" if taken else "passed on"] += 1
        if passed_on:
            decline_offer(reservation=second, actor=second.owner)
    assert sum(seen.values()) == ROUNDS


def test_freed_time_goes_to_who_waits_or_to_who_books_it_never_to_both(race, slot):
    for number in range(ROUNDS):
        taken, (waiting,) = slot.taken_and_wanted(number, waiting=1)
        release_reservation(reservation=taken, actor=taken.owner)
        wish = slot.what(number)
        acts = [lambda: serve_queue(slot.pool.pk), lambda wish=wish: book_reservation(**wish)]
        told = race(lambda n, acts=acts: outcome(acts[n]), 2)
        waiting.refresh_from_db()
        offered = waiting.hold_expires_at is not None
        assert told == ["done", "done" if not offered else told[1]]
        assert (told[1] == "done") != offered
        holders = Lease.objects.filter(state__in=LIVE, during=waiting.during)
        assert holders.count() == 1


def test_killed_while_it_passes_an_offer_on_nothing_has_happened_and_the_next_sweep_does_all_of_it(slot, monkeypatch):
    first, second = slot.offered(0)
    late = first.hold_expires_at

    def killed(*_pool_and_time):
        raise SystemExit("killed")

    with monkeypatch.context() as broken, pytest.raises(SystemExit):
        broken.setattr(waitlist, "serve_under_lock", killed)
        lapse_offers(late)
    first.refresh_from_db()
    assert (first.hold_expires_at, bound(first), first.wait.offers_lapsed) == (late, 1, 0)
    assert lapse_offers(late) == 1
    second.refresh_from_db()
    assert (bound(first), bound(second)) == (0, 1)
    assert Wait.objects.get(reservation=first).offers_lapsed == 1
