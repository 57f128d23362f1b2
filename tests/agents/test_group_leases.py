"""Leases of a group on one node: one workload with all its GPUs, which starts, fails and ends for all of them."""

import pytest

from agents.drivers.simulator import create_node
from agents.group_format import Group, GroupLease, GroupNode
from agents.groups.session import Limits
from agents.groups.watch import Groups
from agents.present import Present
from agents.protocol import Samples
from agents.telemetry import Telemetry
from tests.agents.fake_portal import wait_for
from tests.agents.test_groups import LOOPBACK, free_port
from tests.agents.test_reconcile import House

FAILS = ("python", "-c", "import sys, time; print('up', flush=True); time.sleep(0.3); sys.exit(3)")
LOOK = ("python", "-c", "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['NPROC_PER_NODE'],"
        " os.environ['WORLD_SIZE'], os.environ['MASTER_ADDR'], flush=True); time.sleep(600)")  # fmt: skip
LIMITS = Limits(silence_seconds=1.0, check_seconds=1.0)


class Pair:
    """A house with two whole GPUs, and a lease on each, of one group."""

    def __init__(self, node):
        self.gpus = [gpu.uuid for gpu in create_node(node.file, "pair", [{"model": "L40S", "mig": False}] * 2).gpus]
        self.house = House(node)
        self.group: Group | None = None
        self.watch(self.house.reconciler)

    def watch(self, reconciler) -> None:
        self.groups = Groups(lambda: LOOPBACK, LIMITS)
        reconciler._launcher._groups = reconciler._group_care._groups = self.groups

    def want(self, others: int = 0, **more):
        """The two leases, of a group that has so many other nodes."""
        counts = (2, *(1,) * others)
        nodes = tuple(GroupNode(f"node-{rank}", "127.0.0.1", "570", count) for rank, count in enumerate(counts))
        here = tuple(GroupLease(1 + number, uuid) for number, uuid in enumerate(self.gpus))
        self.group = Group(nodes, 0, here, free_port(), free_port(), "a secret of this very group")
        self.leases = [
            self.house.node.lease(1 + number, 300, gpu_uuid=uuid, profile="full", profile_id=None, size=8, rank=number,
                                  ranks=2 + others, group=self.group, reservation_id=9, **more)
            for number, uuid in enumerate(self.gpus)]
        self.house.want(*self.leases)

    def until(self, kind: str) -> list:
        for lease in self.leases:
            self.house.until(lease.lease_id, kind)
        return [self.house.last(lease.lease_id) for lease in self.leases]

    def output(self) -> str:
        (running,) = self.house.engine.running()
        return self.house.engine.log(running, 0, 1000)[1].decode()


def processes(samples: Samples) -> list[int | None]:
    """The driver looks for them twice a second."""
    return [sample.processes for sample in samples.leases]


@pytest.fixture
def pair(node):
    pair = Pair(node)
    yield pair
    pair.groups.close()
    pair.house.driver.driver.close()


def test_one_workload_has_both_gpus_and_both_leases_run_and_end_with_it(pair):
    pair.want(command=LOOK)
    pair.until("active")
    assert len(pair.house.node.workloads()) == 1
    wait_for(pair.output, 5)
    assert pair.output().split() == [",".join(pair.gpus), "2", "2", "127.0.0.1"]
    telemetry = Telemetry(pair.house.driver, pair.house.engine)
    wait_for(lambda: processes(telemetry.measure(pair.house.reconciler.active, 0)) == [1, 1], 2)
    assert not telemetry.ended
    pair.house.want()
    assert [event.reason for event in pair.until("freed")] == ["withdrawn", "withdrawn"]
    assert not pair.house.node.workloads()
    assert pair.house.engine.running() == ()


def test_a_workload_that_fails_has_failed_for_both(pair):
    pair.want(command=FAILS)
    freed = pair.until("freed")
    assert [(event.reason, event.exit_code) for event in freed] == [("exited", 3), ("exited", 3)]


def test_a_workload_that_cannot_start_fails_both(pair):
    pair.want(command=("no-such-program",))
    assert [event.reason for event in pair.until("failed")] == ["start_failed", "start_failed"]


def test_a_group_waits_until_all_its_gpus_here_are_free(pair):
    before = pair.house.node.lease(7, 300, gpu_uuid=pair.gpus[1], profile="full", profile_id=None, size=8)
    pair.house.want(before)
    pair.house.until(7, "active")
    pair.want()
    assert pair.house.kinds(1) == ["starting"]
    assert pair.house.kinds(2) == []
    pair.house.until(7, "freed")
    pair.until("active")


def test_what_a_check_finds_fails_both_before_anything_has_run(pair):
    pair.want(others=1)
    failed = pair.until("failed")
    assert [(event.reason, event.detail) for event in failed] == [("unreachable", "node-1")] * 2
    assert pair.house.kinds(1) == ["starting", "failed"]


def test_a_new_agent_takes_the_pair_over_and_ends_it_when_the_others_are_silent(pair):
    pair.want()
    pair.until("active")
    pair.groups.close()
    lonely = [GroupNode(f"node-{rank}", "127.0.0.1", "570", 2 - rank) for rank in range(2)]
    facts = {name: getattr(pair.group, name) for name in Group.__struct_fields__}
    pair.group = Group(**facts | {"nodes": tuple(lonely)})
    pair.leases = [type(lease)(**{name: getattr(lease, name) for name in lease.__struct_fields__}
                               | {"group": pair.group}) for lease in pair.leases]
    pair.house.again()
    pair.watch(pair.house.reconciler)
    pair.house.want(*pair.leases)
    assert len(pair.house.node.workloads()) == 1
    assert [(event.reason, event.detail) for event in pair.until("freed")] == [("peer_lost", "node-1")] * 2
    assert not pair.house.node.workloads()


def test_a_rank_whose_agent_is_gone_ends_by_its_fence(pair):
    pair.want()
    pair.until("active")
    fence = (pair.house.node.state / "workloads" / "1-0" / "fence.json").read_bytes()
    assert not Present(pair.house.driver, pair.house.engine).running()[(1, 0)].ending
    nodes = (*pair.group.nodes, GroupNode("node-1", "127.0.0.1", "570", 1))
    facts = {name: getattr(pair.group, name) for name in Group.__struct_fields__}
    progress = pair.house.journal.state.progress[1]
    lease = {name: getattr(progress.lease, name) for name in progress.lease.__struct_fields__}
    progress.lease = type(progress.lease)(**lease | {"group": Group(**facts | {"nodes": nodes})})
    fences = pair.house.reconciler._fences
    fences._limits = LIMITS
    fences.mind(progress, pair.house.engine.running()[0], progress.lease.starts_at)
    assert (pair.house.node.state / "workloads" / "1-0" / "fence.json").read_bytes() != fence
    wait_for(lambda: not pair.house.node.workloads(), 15)
