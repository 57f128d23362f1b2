"""Groups of whole GPUs: agents find each other before the start, and end together."""

import itertools
import socket
import time

import pytest

from agents.cluster import Cluster, find_cluster, interface_exists
from agents.group_format import Group, GroupLease, GroupNode
from agents.group_reasons import (
    DRIVER_DIFFERS,
    NO_ADDRESS,
    NO_INTERFACE,
    NO_NETWORK,
    PEER_FAILED,
    PEER_LOST,
    PORT_TAKEN,
    UNREACHABLE,
    UNRESOLVED,
)
from agents.groups.environment import group_environment
from agents.groups.session import Limits, Session, Stage
from agents.groups.trouble import Trouble
from agents.groups.watch import Groups
from tests.agents.fake_portal import wait_for

LOOPBACK = Cluster("127.0.0.1", "lo")
LIMITS = Limits(silence_seconds=1.0, check_seconds=1.5)
_secrets = itertools.count(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def make_group(gpus=(1, 1), drivers=("570.86", "570.124"), addresses=("127.0.0.1", "127.0.0.1")) -> list[Group]:
    """What each node is told of one group."""
    nodes = tuple(
        GroupNode(f"node-{rank}", address, driver, count)
        for rank, (address, driver, count) in enumerate(zip(addresses, drivers, gpus, strict=True)))
    facts = {"nodes": nodes, "master_port": free_port(), "watch_port": free_port(),
             "secret": f"a long secret, number {next(_secrets)}"}
    return [Group(node_rank=rank, here=tuple(GroupLease(100 * rank + n, f"GPU-{rank}-{n}") for n in range(node.gpus)),
                  **facts)
            for rank, node in enumerate(nodes)]


@pytest.fixture(autouse=True)
def ended():
    yield
    while Machine.made:
        Machine.made.pop().groups.close()


class Machine:
    """The watch of one node, without the rest of its agent."""

    made: "list[Machine]" = []

    def __init__(self, group: Group, cluster: Cluster = LOOPBACK, running: bool = False):
        self.groups = Groups(lambda: cluster, LIMITS)
        self.group = group
        self.made.append(self)
        self.session: Session = self.groups.session(group, running=running)

    def reaches(self, stage: Stage, within: float = 6.0) -> Trouble | None:
        wait_for(lambda: self.session.stage is stage, within, lambda: f"{self.session.stage} {self.session.trouble}")
        return self.session.trouble


def test_all_start_at_once_when_each_has_reached_the_first_and_the_port_is_free_again():
    groups = make_group((1, 1, 1), ("570", "570", ""), ("127.0.0.1",) * 3)
    first, second = Machine(groups[0]), Machine(groups[1])
    with pytest.raises(AssertionError):
        first.reaches(Stage.RUNNING, 0.5)
    third = Machine(groups[2])
    for machine in (first, second, third):
        machine.reaches(Stage.RUNNING)
    with socket.socket() as workload:  # as a program that does not ask to take over what lingers
        workload.bind(("", groups[0].master_port))


@pytest.mark.parametrize(
    ("changes", "cluster", "reason", "about"),
    [({"drivers": ("570.86", "535.1")}, LOOPBACK, DRIVER_DIFFERS, "node-0 570.86, node-1 535.1"),
     ({}, Cluster("10.0.0.1", "berth-none"), NO_INTERFACE, "node-0: berth-none"),
     ({}, Cluster("127.0.0.1", "lo", network=False), NO_NETWORK, "node-0"),
     ({"addresses": ("127.0.0.1", "")}, LOOPBACK, NO_ADDRESS, "node-1"),
     ({"addresses": ("127.0.0.1", "no-such-node.invalid")}, LOOPBACK, UNRESOLVED, "node-1: no-such-node.invalid")])
def test_what_would_keep_ranks_apart_is_said_before_anything_runs(changes, cluster, reason, about):
    machine = Machine(make_group(**changes)[0], cluster)
    assert machine.reaches(Stage.TROUBLED) == Trouble(reason, about)
    assert not machine.session.ran


def test_a_taken_port_is_told_to_both():
    groups = make_group()
    with socket.socket() as squatter:
        squatter.bind(("", groups[0].master_port))
        squatter.listen()
        first, second = Machine(groups[0]), Machine(groups[1])
        for machine in (first, second):
            assert machine.reaches(Stage.TROUBLED) == Trouble(PORT_TAKEN, f"node-0: {groups[0].master_port}")


def test_a_stranger_is_not_taken_for_a_rank_and_who_is_missing_is_named():
    groups = make_group()
    stranger = Group(**{name: getattr(groups[1], name) for name in Group.__struct_fields__}
                     | {"secret": "some other secret"})
    first, second = Machine(groups[0]), Machine(stranger)
    about = f"node-0: 127.0.0.1 {groups[1].watch_port}"
    assert second.reaches(Stage.TROUBLED) == Trouble(UNREACHABLE, about)
    assert first.reaches(Stage.TROUBLED) == Trouble(UNREACHABLE, "node-1")


@pytest.mark.parametrize("failing", [0, 1])
def test_who_fails_ends_the_others_at_once(failing):
    machines = [Machine(group) for group in make_group()]
    for machine in machines:
        machine.reaches(Stage.RUNNING)
    trouble = Trouble(PEER_FAILED, f"node-{failing} 1")
    began = time.monotonic()
    machines[failing].groups.leave(machines[failing].group, trouble)
    assert machines[1 - failing].reaches(Stage.TROUBLED) == trouble
    assert time.monotonic() - began < LIMITS.silence_seconds


@pytest.mark.parametrize("ending", [0, 1])
def test_who_ends_well_ends_nobody_else(ending):
    machines = [Machine(group) for group in make_group()]
    for machine in machines:
        machine.reaches(Stage.RUNNING)
    machines[ending].groups.leave(machines[ending].group, None)
    with pytest.raises(AssertionError):
        machines[1 - ending].reaches(Stage.TROUBLED, 1.3 * LIMITS.silence_seconds)


@pytest.mark.parametrize("silent", [0, 1])
def test_who_falls_silent_ends_the_other_within_the_limit(silent):
    machines = [Machine(group) for group in make_group()]
    for machine in machines:
        machine.reaches(Stage.RUNNING)
    machines[silent].groups._loop.call_soon_threadsafe(time.sleep, 3)  # as a machine that hangs
    assert machines[1 - silent].reaches(Stage.TROUBLED, 3) == Trouble(PEER_LOST, f"node-{silent}")


@pytest.mark.parametrize("restarted", [0, 1])
def test_a_new_agent_takes_the_watch_over(restarted):
    groups = make_group()
    machines = [Machine(group) for group in groups]
    for machine in machines:
        machine.reaches(Stage.RUNNING)
    machines[restarted].groups.close()
    new = Machine(groups[restarted], running=True)
    with pytest.raises(AssertionError):
        machines[1 - restarted].reaches(Stage.TROUBLED, 1.3 * LIMITS.silence_seconds)
    assert new.session.stage is Stage.RUNNING


def test_the_environment_is_what_torchrun_and_nccl_read():
    second = group_environment(make_group((4, 2))[1], "eth7")
    assert second["WORLD_SIZE"] == "6"
    assert (second["NODE_RANK"], second["NPROC_PER_NODE"], second["LOCAL_WORLD_SIZE"]) == ("1", "2", "2")
    assert (second["NCCL_SOCKET_IFNAME"], second["GLOO_SOCKET_IFNAME"]) == ("eth7", "eth7")
    assert (second["PET_NNODES"], second["BERTH_FIRST_RANK"]) == ("2", "4")
    assert "RANK" not in second
    single = group_environment(make_group((4, 1))[1], "eth7")
    assert (single["RANK"], single["LOCAL_RANK"], single["MASTER_ADDR"]) == ("4", "0", "127.0.0.1")


def test_the_way_to_the_portal_names_address_and_interface():
    assert find_cluster("http://127.0.0.1:8000") == LOOPBACK
    assert find_cluster("https://berth.example", interface="lo") == LOOPBACK
    assert find_cluster("https://berth.example", address="::1").interface in ("lo", "")
    assert find_cluster("http://no-such-portal.invalid").address == ""
    assert interface_exists("lo") and not interface_exists("berth-none")
