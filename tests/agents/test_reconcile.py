"""Passes of the loop over the real simulated driver, with faults put between: what is read back counts, not what was
said; what cannot be freed is never told as free; one bad slice does not stop the others."""

import dataclasses
import os
import subprocess
import time

import pytest

from agents.clock import Clock
from agents.containers.cdi import CdiSpec, simulated_spec
from agents.containers.podman import PodmanEngine
from agents.drivers.contract import DriverError, HealthEvent
from agents.drivers.opening import open_driver
from agents.journal import Journal
from agents.patience import PatientDriver
from agents.protocol import Desired
from agents.reconcile import Reconciler
from agents.starting import NoDeviceSpec
from tests.agents.fake_portal import wait_for


class Between:
    """The real driver, with some of its calls answered by a fault instead."""

    def __init__(self, driver):
        self.driver = driver
        self.faults = {}
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            fault = self.faults.get(name)
            return fault(*arguments) if fault else getattr(self.driver, name)(*arguments)
        return call


class House:
    """A reconciler with a clock of the test's own."""

    def __init__(self, node):
        self.node = node
        self.driver = Between(open_driver(node.file))
        self.engine = node.engine()
        self.ahead = 0.0
        self.spec = NoDeviceSpec()
        self.generation = 0
        self.journal = Journal(node.state)
        self.again()

    def again(self, driver=None):
        """A new agent over what the last one left on disk."""
        self.journal = Journal(self.node.state)
        self.reconciler = Reconciler(
            journal=self.journal, driver=driver or self.driver, engine=self.engine, spec=self.spec,
            clock=Clock(wall=lambda: time.time() + self.ahead), boot_id=lambda: "boot", told=lambda: None)

    def want(self, *leases):
        self.generation += 1
        self.reconciler.deliver(Desired(self.generation, leases), False)
        return self.reconciler.run_pass()

    def kinds(self, lease_id):
        return [event.kind for event in self.reconciler.events if event.lease_id == lease_id]

    def last(self, lease_id):
        return [event for event in self.reconciler.events if event.lease_id == lease_id][-1]

    def until(self, lease_id, kind, within=10.0):
        def look():
            self.reconciler.run_pass()
            return kind in self.kinds(lease_id)
        wait_for(look, within, lambda: f"{self.reconciler.events}")


@pytest.fixture
def house(node):
    house = House(node)
    yield house
    house.driver.faults.clear()
    house.driver.driver.close()


def refuse(text, holders=()):
    def fault(*_):
        raise DriverError(text, 19, holders)
    return fault


def test_success_that_is_not_there_when_read_back_is_no_success(house):
    house.driver.faults["create"] = lambda *_: None
    house.want(house.node.lease(1))
    assert house.kinds(1) == ["starting"]
    assert "read back" in house.journal.state.progress[1].detail
    assert not house.node.workloads()
    house.driver.faults.clear()
    house.ahead += 2
    house.until(1, "active")


def test_a_start_that_keeps_failing_is_given_up_with_the_drivers_words_and_leaves_nothing(house):
    house.driver.faults["create"] = refuse("In use by another client.", (4711,))
    house.want(house.node.lease(2, seconds=600))
    for _ in range(40):
        house.ahead += 5
        house.reconciler.run_pass()
    failed = house.last(2)
    assert (failed.kind, failed.reason) == ("failed", "start_failed")
    assert "In use by another client. Held by process 4711." in failed.detail
    assert house.driver.calls.count("create") == 6
    assert house.node.instances() == set()


def test_a_bad_slice_does_not_stop_the_others(house):
    bad, good = house.node.lease(3, start=0), house.node.lease(4, start=1)
    real = house.driver.driver.create
    house.driver.faults["create"] = lambda gpu, profile, start, size: (
        refuse("bad slice")() if start == 0 else real(gpu, profile, start, size))
    house.want(bad, good)
    assert house.kinds(4) == ["starting", "active"]
    assert house.kinds(3) == ["starting"]


def test_what_cannot_be_freed_is_never_told_as_free_and_its_gpu_is_faulty(house):
    lease = house.node.lease(5)
    house.want(lease, house.node.lease(6, start=3))
    house.driver.faults["destroy"] = refuse("In use by another client.", (4711,))
    house.want(house.node.lease(6, start=3))
    wait_for(lambda: not [w for w in house.node.workloads() if w.lease_id == 5], 5)
    for _ in range(20):
        house.ahead += 1
        house.reconciler.run_pass()
    house.ahead += 6
    house.reconciler.run_pass()
    assert "freed" not in house.kinds(5)
    fault = next(gpu for gpu in house.reconciler.gpus if gpu.uuid == house.node.mig_gpu)
    assert not fault.healthy
    assert "4711" in fault.fault
    assert [each.lease_id for each in house.node.workloads()] == [6]
    house.driver.faults.clear()
    house.ahead += 20
    house.until(5, "freed")
    house.ahead += 6
    house.reconciler.run_pass()
    assert all(gpu.healthy for gpu in house.reconciler.gpus)


def test_the_next_lease_waits_until_the_slice_of_the_last_one_is_read_back_free(house):
    first, second = house.node.lease(7, seconds=100), house.node.lease(8, begins=99.5, seconds=100)
    house.want(first, second)
    house.driver.faults["destroy"] = lambda *_: None
    house.ahead += 101
    wait_for(lambda: (house.reconciler.run_pass(), not house.node.workloads())[1], 5)
    house.ahead += 1
    house.reconciler.run_pass()
    assert house.kinds(7) == ["starting", "active", "stopping"]
    assert house.kinds(8) == []
    house.driver.faults.clear()
    house.ahead += 20
    house.until(8, "active")
    kinds = [(event.lease_id, event.kind) for event in house.reconciler.events]
    assert kinds.index((7, "freed")) < kinds.index((8, "starting"))


def test_an_agent_that_dies_between_slice_and_workload_goes_on_at_the_next_start(house):
    class Died(BaseException):
        pass

    def die(*_):
        raise Died

    house.spec.ensure = die
    with pytest.raises(Died):
        house.want(house.node.lease(9))
    assert house.node.instances() == {(house.node.mig_gpu, 0, 1)}
    house.spec = NoDeviceSpec()
    house.again()
    house.until(9, "active")
    assert house.driver.calls.count("create") == 1


def test_a_withdrawal_that_arrives_in_the_middle_of_a_start_leaves_no_workload_and_no_slice(house):
    house.spec.ensure = lambda devices: house.reconciler.deliver(Desired(99, ()), False)
    house.want(house.node.lease(10))
    house.until(10, "freed")
    assert house.last(10).reason == "withdrawn"
    assert house.node.instances() == set()
    assert not house.node.workloads()


def test_a_workload_that_ends_at_once_and_leaves_processes_is_run_once_and_cleared(house):
    runs = house.node.state / "runs"
    command = f"echo once >> {runs}; for n in $(seq 40); do setsid sleep 600 & done; exit 3"
    house.want(house.node.lease(13, command=("sh", "-c", command)))
    house.until(13, "freed")
    assert (house.last(13).reason, house.last(13).exit_code, house.last(13).detail) == ("exited", 3, "")
    assert runs.read_text().split() == ["once"]
    assert house.node.instances() == set()


def test_a_driver_that_hangs_holds_nobody_up_and_no_workload_outlives_its_lease(house):
    lease = house.node.lease(11, seconds=100)
    house.want(lease)
    patient = PatientDriver(house.driver, 0.3)
    house.again(patient)
    house.driver.faults["instances"] = lambda: time.sleep(5) or ()
    began = time.monotonic()
    house.reconciler.run_pass()
    house.ahead += 101
    house.reconciler.run_pass()
    wait_for(lambda: not house.node.workloads(), 3)
    assert time.monotonic() - began < 3
    assert "freed" not in house.kinds(11)
    with pytest.raises(DriverError, match="hangs"):
        patient.versions()
    house.driver.faults.clear()
    wait_for(lambda: patient.probe_age_seconds() > 0.3, 2)
    house.until(11, "freed", 15)


def test_an_older_document_of_the_same_connection_is_not_obeyed(house):
    house.want(house.node.lease(12))
    house.reconciler.deliver(Desired(0, ()), False)
    house.reconciler.run_pass()
    assert [each.lease_id for each in house.node.workloads()] == [12]
    house.reconciler.deliver(Desired(0, ()), True)
    house.until(12, "freed")


def test_a_lease_for_a_gpu_this_node_does_not_have_fails_with_words(house):
    house.want(house.node.lease(13, gpu_uuid="GPU-of-another-node"))
    for _ in range(30):
        house.ahead += 5
        house.reconciler.run_pass()
    assert (house.last(13).kind, house.last(13).reason) == ("failed", "start_failed")
    assert house.last(13).detail


def test_nothing_is_ended_or_cleared_before_the_portal_has_spoken(house):
    house.want(house.node.lease(14))
    (house.node.state / "journal.json").unlink()
    house.again()
    house.reconciler.run_pass()
    assert [each.lease_id for each in house.node.workloads()] == [14]
    assert house.node.instances() == {(house.node.mig_gpu, 0, 1)}


def test_the_pass_is_due_again_exactly_when_the_next_lease_starts(house):
    assert house.want(house.node.lease(15, begins=2.0)) == pytest.approx(2.0, abs=0.3)


def test_a_fatal_xid_marks_the_gpu_and_one_of_an_application_does_not(house):
    house.want(house.node.lease(16))
    seen = [HealthEvent(house.node.mig_gpu, 31), HealthEvent(house.node.whole_gpu, 48)]
    house.driver.faults["health_events"] = lambda: tuple(seen)
    house.reconciler.run_pass()
    seen.clear()
    house.reconciler.run_pass()
    health = {gpu.uuid: (gpu.healthy, gpu.fault) for gpu in house.reconciler.gpus}
    assert health[house.node.mig_gpu] == (True, "")
    assert health[house.node.whole_gpu] == (False, "The driver reported XID 48.")
    assert [each.lease_id for each in house.node.workloads()] == [16]


def test_a_slice_that_another_process_holds_stays_and_is_told_once(house):
    instance = house.driver.driver.create(house.node.mig_gpu, 19, 5, 1)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": instance.mig_uuid}
    stranger = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        house.want()
        house.reconciler.run_pass()
        assert house.node.instances() == {(house.node.mig_gpu, 5, 1)}
        assert [(each.start, each.lease_id) for each in house.reconciler.present] == [(5, None)]
    finally:
        stranger.kill()
        stranger.wait()

    def cleared():
        house.ahead += 16
        house.reconciler.run_pass()
        return not house.node.instances()
    wait_for(cleared, 5)


def test_a_half_made_slice_on_the_span_of_a_lease_is_cleared_and_made_whole(house):
    real = house.driver.driver.instances
    house.driver.driver.create(house.node.mig_gpu, 19, 0, 1)
    house.driver.faults["instances"] = lambda: tuple(
        each if "create" in house.driver.calls else dataclasses.replace(each, mig_uuid=None) for each in real())
    house.want(house.node.lease(17))
    house.until(17, "active")
    assert "destroy" in house.driver.calls
    assert house.node.instances() == {(house.node.mig_gpu, 0, 1)}


def test_an_engine_that_does_not_answer_is_told_as_the_reason_and_the_node_is_seen_all_the_same(house):
    house.engine = PodmanEngine("unix:///nowhere/podman.sock", "1", CdiSpec(house.node.state, "1", simulated_spec))
    house.again()
    house.want(house.node.lease(18))
    assert len(house.reconciler.gpus) == 2
    assert house.node.instances() == set()
    detail = house.journal.state.progress[18].detail
    assert "Podman does not answer at unix:///nowhere/podman.sock" in detail
    house.engine = house.node.engine()
    house.again()
    house.ahead += 2
    house.until(18, "active")
