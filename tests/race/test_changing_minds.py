"""The last of a quota, wanted at once on every path that consumes it: one gets it. With the lock off, two do."""

from collections.abc import Callable

import pytest

from portal.inventory.models import Pool
from portal.quotas.policy_changes import set_policy
from portal.reservations import approving, changing, moving, queue_serving
from portal.reservations.approving import approve, refuse
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Lease, Reservation, State, Wait
from portal.reservations.selectors import peak_weight_held
from portal.tenants.models import Role
from portal.workloads.models import Workload
from tests.db.house import House, span
from tests.factories import HOUR, make_reservation, make_user, profile_of
from tests.race.unlocked import unlocked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
LIMIT = 7
PATHS = ("create", "extend", "move", "approve", "queue")
ROUNDS = 4


class LastSlice(House):
    """``shared`` is an hour in which six of the seven that the quota allows are held: whoever comes, one more fits."""

    def __init__(self) -> None:
        super().__init__(gpus=2, limit=LIMIT)
        set_policy(actor=self.admin, tenant=self.team, approval_above_slice_seconds=4 * 3600)
        self.first, _second = self.pool.gpus.order_by("pk")
        self.shared = span(self.start, 1)
        make_reservation(
            self.team, self.pool, "1g.10gb", self.shared,
            places=tuple((self.first, place) for place in range(6)))  # fmt: skip

    def contender(self, path: str) -> Callable[[], object]:
        """Something ready that takes one slice of the quota within the shared hour when it is called."""
        if path == "create":
            return lambda: self.book(start=self.shared.lower)
        if path == "extend":
            mine = self.book(start=self.shared.lower - HOUR)
            return lambda: self.change(mine, end=self.shared.upper)
        if path == "move":
            mine = self.book(start=self.shared.lower + 5 * HOUR)
            return lambda: self.change(mine, start=self.shared.lower, end=self.shared.upper)
        if path == "queue":
            self.wait()
            return lambda: self.serve()
        raise AssertionError(path)

    def wait(self) -> None:
        profile, workload = profile_of(self.pool, "1g.10gb"), Workload.objects.create(tenant=self.team, name="train")
        waiting = Reservation.objects.create(
            tenant=self.team, owner=self.owner, created_by=self.owner, pool=self.pool, profile=profile,
            weight=profile.weight, during=self.shared, state=State.QUEUED, workload=workload)  # fmt: skip
        Wait.objects.create(
            reservation=waiting, seconds=3600, fixed=True, not_before=self.shared.lower,
            give_up_at=self.shared.upper)  # fmt: skip

    def serve(self) -> None:
        if not queue_serving.serve_queue(self.pool.pk):
            raise AssertionError("nobody was served")


def told(contender: Callable[[], object]) -> str:
    try:
        contender()
    except ReservationRefused as refusal:
        return refusal.code
    except AssertionError:
        return "waits"
    return "won"


def held(house: LastSlice) -> int:
    return peak_weight_held(house.root, house.pool, house.shared)


def forget(house: LastSlice) -> None:
    """Whatever won is gone before the next round."""
    Wait.objects.all().delete()
    keep = Reservation.objects.order_by("pk").first()
    Lease.objects.exclude(reservation=keep).delete()
    Reservation.objects.exclude(pk=keep.pk).update(state=State.CANCELLED, hold_expires_at=None)


@pytest.fixture
def house():
    return LastSlice()


def pairs() -> list[tuple[str, str]]:
    names = [path for path in PATHS if path != "approve"]
    return [
        (one, other) for number, one in enumerate(names) for other in names[number:] if (one, other) != ("queue",) * 2
    ]


@pytest.mark.case("Q-09")
@pytest.mark.parametrize(("one", "other"), pairs())
def test_on_whichever_two_paths_the_last_slice_is_wanted_one_gets_it(race, house, one, other):
    for _round in range(ROUNDS):
        contenders = [house.contender(path) for path in (one, other, one, other)]
        outcomes = race(lambda number, them=contenders: told(them[number]), len(contenders))
        assert held(house) == LIMIT, outcomes
        assert set(outcomes) <= {"won", "waits", "quota_exceeded"} and "won" in outcomes, outcomes
        forget(house)


@pytest.mark.case("Q-09")
def test_what_is_held_for_approval_is_nobody_elses_while_it_is_approved(race, house):
    for _round in range(ROUNDS):
        asked = house.book(start=house.shared.lower, hours=5)
        assert asked.state == State.REQUESTED
        contenders = [lambda one=asked: approve(approval=one.approval, actor=house.lead)]
        contenders += [house.contender(path) for path in ("create", "move", "extend")]
        outcomes = race(lambda number, them=contenders: told(them[number]), len(contenders))
        assert outcomes == ["won", "quota_exceeded", "quota_exceeded", "quota_exceeded"]
        asked.refresh_from_db()
        assert (asked.state, held(house)) == (State.CONFIRMED, LIMIT)
        forget(house)


@pytest.mark.case("Q-09")
@pytest.mark.parametrize("path", ["create", "extend", "move"])
def test_control_without_the_lock_the_last_slice_is_sold_more_than_once(
    race, house, monkeypatch, without_exclusion, path
):
    """All choose the same place, so the constraint would hide what the lock prevents."""
    unlocked(monkeypatch)
    for module in (changing, moving, approving, queue_serving):
        monkeypatch.setattr(module, "lock_pool", lambda pool_id: Pool.objects.get(pk=pool_id))
    most = 0
    for _round in range(10):
        contenders = [house.contender(path) for _ in range(6)]
        race(lambda number, them=contenders: told(them[number]), len(contenders))
        most = max(most, held(house))
        forget(house)
        if most > LIMIT:
            break
    assert most > LIMIT, "the race cannot happen, so the tests above prove nothing"


def test_of_leads_who_decide_at_once_one_wins_and_the_others_are_told(race, house):
    leads = [house.lead, *(make_user(f"lead-{number}", house.team, Role.LEAD) for number in range(3))]
    for _round in range(ROUNDS):
        asked = house.book("1g.10gb", start=house.start + 9 * HOUR, hours=5)

        def decide(number: int, approval=asked.approval) -> str:
            if number % 2:
                return told(lambda: refuse(approval=approval, actor=leads[number], note="no"))
            return told(lambda: approve(approval=approval, actor=leads[number]))

        outcomes = race(decide, len(leads))
        assert sorted(outcomes) == ["state_conflict"] * 3 + ["won"]
        asked.refresh_from_db()
        winner = outcomes.index("won")
        assert asked.state == (State.REFUSED if winner % 2 else State.CONFIRMED)
        forget(house)


def test_the_sweep_and_a_lead_decide_once(race, house):
    for _round in range(ROUNDS):
        asked = house.book("1g.10gb", start=house.start + 9 * HOUR, hours=5)
        late = asked.approval.expires_at
        outcomes = race(
            lambda number, one=asked, at=late: (
                str(approving.expire_approvals(at))
                if number
                else told(lambda: approve(approval=one.approval, actor=house.lead))
            ),
            2,
        )
        assert outcomes in (["won", "0"], ["state_conflict", "1"])
        forget(house)


def test_two_who_change_the_same_reservation_at_once_leave_one_of_the_two_windows(race, house):
    mine = house.book(start=house.start + 9 * HOUR)
    wanted = [span(house.start + hours * HOUR, 2) for hours in (12, 15)]
    outcomes = race(
        lambda number: told(
            lambda: house.change(mine, start=wanted[number].lower, end=wanted[number].upper, by=house.lead)
        ),
        2,
    )
    assert outcomes == ["won", "won"]
    mine.refresh_from_db()
    (lease,) = Lease.objects.filter(reservation=mine, state="planned")
    assert mine.during in wanted and lease.during == mine.during
