"""Starts that are cancelled, fail, or have to wait, from both ends: the device is empty and the portal knows it."""

import dataclasses

import pytest
from django.test import Client
from django.utils import timezone

from agents.containers.contract import EngineError, WorkloadRefused
from agents.drivers.contract import DriverError
from portal.reservations.models import Lease, LeaseState, Reservation, State
from portal.reservations.selectors import peak_weight_held
from portal.reservations.spending import budget_statuses
from tests.agents.fake_portal import wait_for
from tests.agents.joined import Joined
from tests.agents.test_reconcile import House
from tests.factories import HOUR, make_budget, window

pytestmark = pytest.mark.django_db
WITHIN_SECONDS = 60
IGNORES_TERM = ("python", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True);"
                " time.sleep(600)")  # fmt: skip


@pytest.fixture
def joined(node):
    house = House(node)
    yield Joined(house)
    house.driver.faults.clear()
    house.driver.driver.close()


def raises(error: Exception):
    def fault(*_):
        raise error

    return fault


@pytest.mark.case("R-15")
@pytest.mark.parametrize("point", ["before the workload", "after the workload", "in the second try"])
def test_a_cancel_in_the_middle_of_a_start_leaves_nothing_and_closes_the_ledger_once(joined, point):
    reservation = joined.book()
    before = joined.node.__class__.objects.get(pk=joined.node.pk).generation
    cancelled = []

    def cancel(*arguments):
        if not cancelled:
            cancelled.append(joined.release(reservation))
            joined.hand_over()
        return joined.engine.driver.start(*arguments) if arguments and point == "after the workload" else None

    if point == "in the second try":
        joined.house.spec.ensure = raises(EngineError("not yet"))
        joined.exchange()
        assert joined.lease(reservation).state == LeaseState.STARTING
    if point == "after the workload":
        joined.engine.faults["start"] = lambda *arguments: (joined.engine.driver.start(*arguments), cancel())[0]
    else:
        joined.house.spec.ensure = lambda devices: cancel()
    joined.exchange_until(lambda: cancelled, 30)
    assert joined.lease(reservation).state in (LeaseState.STOPPING, LeaseState.ENDED)
    joined.engine.faults.clear()
    joined.house.spec.ensure = lambda devices: None
    joined.exchange_until(joined.is_empty, WITHIN_SECONDS)
    joined.node.refresh_from_db()
    assert joined.node.generation > before
    assert joined.ledger() in ([], ["opened", "closed"])
    reservation.refresh_from_db()
    assert reservation.state in (State.CANCELLED, State.ENDED)
    assert set(joined.states_of_slices()) == {"free"}
    joined.exchange(30)
    assert joined.ledger() in ([], ["opened", "closed"])


@pytest.mark.case("R-16")
def test_a_start_that_fails_and_whose_clean_up_fails_once_gives_its_slice_back_within_a_minute(joined):
    reservation = joined.book("2g.20gb")
    joined.engine.faults["start"] = raises(WorkloadRefused("no such image"))
    failures = []

    def fail_once(*arguments):
        if not failures:
            failures.append(1)
            raise DriverError("In use by another client.", 19, ())
        return joined.driver.driver.destroy(*arguments)

    joined.driver.faults["destroy"] = fail_once
    joined.exchange()
    assert joined.house.node.instances(), "the slice was made, so that there is something to give back"
    seen = [joined.states_of_slices()]

    def free() -> bool:
        seen.append(joined.states_of_slices())
        return joined.is_empty()

    joined.exchange_until(free, WITHIN_SECONDS)
    assert failures
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason) == (State.ENDED, "failed")
    assert set(joined.states_of_slices()) == {"free"}
    assert {word for words in seen for word in words} <= {"free", "reserved", "in use", "draining", "faulty"}
    assert joined.ledger() == []


@pytest.mark.case("R-17")
def test_the_next_lease_starts_only_when_the_one_before_it_is_off_the_device_and_its_owner_sees_why(joined, client):
    first = joined.book("7g.80gb", seconds=60, command=IGNORES_TERM)
    second = joined.book("7g.80gb", after_seconds=60, seconds=600)
    joined.exchange()
    assert joined.lease(first).state == LeaseState.ACTIVE
    joined.driver.faults["destroy"] = raises(DriverError("In use by another client.", 19, ()))
    joined.house.ahead += 62
    wait_for(lambda: (joined.exchange(), not joined.house.node.workloads())[1], 10)
    assert joined.lease(first).state == LeaseState.STOPPING
    assert joined.lease(second).state == LeaseState.PLANNED
    joined.bring_forward(62)
    client.force_login(joined.owner)
    assert "waits until the slices are cleared" in client.get(f"/reservations/{second.number}/").content.decode()
    joined.driver.faults.clear()
    joined.exchange_until(lambda: joined.lease(second).state == LeaseState.ACTIVE, WITHIN_SECONDS)
    one, other = joined.lease(first), joined.lease(second)
    assert one.ended_at <= other.starting_at <= other.active_at
    assert "waits until" not in client.get(f"/reservations/{second.number}/").content.decode()


def _half_made(joined: Joined) -> tuple:
    """Instances without the compute instance that makes them usable."""
    return tuple(dataclasses.replace(each, mig_uuid=None) for each in joined.driver.driver.instances())


STEPS = {
    "the driver refuses the slice": lambda j: j.driver.faults.update(create=raises(DriverError("No.", 19, ()))),
    "the driver makes nothing and says it did": lambda j: j.driver.faults.update(create=lambda *_: None),
    "only half of the slice is made": lambda j: j.driver.faults.update(instances=lambda: _half_made(j)),
    "the device spec cannot be written": lambda j: setattr(j.house.spec, "ensure", raises(EngineError("exit 1"))),
    "the disk is full": lambda j: j.engine.faults.update(start=raises(OSError(28, "No space left on device"))),
    "the engine does not answer": lambda j: j.engine.faults.update(start=raises(EngineError("no answer"))),
    "a folder to mount is missing": lambda j: j.engine.faults.update(start=raises(WorkloadRefused("no folder /data"))),
    "the workload is given another device": lambda j: j.engine.faults.update(device_of=lambda _: "MIG-another"),
    "its command does not exist": None,
}


@pytest.mark.case("Q-10")
@pytest.mark.parametrize("step", STEPS)
def test_a_start_that_fails_at_any_step_gives_slices_layout_and_quota_back(joined, step):
    make_budget(joined.team, 10**6)
    fail = STEPS[step]
    if fail is not None:
        fail(joined)
    reservation = joined.book("3g.40gb", command=("no-such-command",) if fail is None else ("sleep", "600"))
    held = window(timezone.now(), 1)
    assert peak_weight_held(joined.team, joined.pool, held) == 3
    joined.exchange_until(lambda: joined.house.kinds(joined.lease(reservation).pk)[-1:] == ["failed"]
                          or joined.lease(reservation).state == LeaseState.FAILED, 900, step=5)  # fmt: skip
    joined.exchange_until(joined.is_empty, WITHIN_SECONDS)
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason) == (State.ENDED, "failed")
    assert reservation.end_detail
    assert peak_weight_held(joined.team, joined.pool, held) == 0
    assert [(each.spent, each.committed) for each in budget_statuses(joined.team)] == [(0, 0)]
    assert joined.ledger() == []
    assert set(joined.states_of_slices()) == {"free"}


@pytest.mark.case("Q-08")
def test_rows_that_are_gone_are_forgotten_by_everybody(joined):
    """As after a restored database: nothing in the web, the service or the agent goes on believing in them."""
    http = Client()
    http.force_login(joined.owner)
    start, end = (f"{timezone.now() + hours * HOUR:%Y-%m-%dT%H:%M:%SZ}" for hours in (0, 1))
    free = f"/api/v1/pools/{joined.pool.pk}/free/?start={start}&end={end}"
    empty = http.get(free).json()
    reservation = joined.book("7g.80gb")
    joined.exchange()
    assert joined.lease(reservation).state == LeaseState.ACTIVE
    assert http.get(free).json() != empty
    Lease.objects.filter(reservation=reservation).delete()
    Reservation.objects.filter(pk=reservation.pk).delete()
    assert http.get(free).json() == empty
    assert peak_weight_held(joined.team, joined.pool, window(timezone.now(), 1)) == 0
    again = joined.book("7g.80gb", after_seconds=1)
    joined.exchange_until(lambda: joined.lease(again).state == LeaseState.ACTIVE, WITHIN_SECONDS)
    assert {each.lease_id for each in joined.house.node.workloads()} == {joined.lease(again).pk}
