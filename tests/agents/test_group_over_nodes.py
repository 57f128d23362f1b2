"""A group over two machines: the ranks find each other and add up; a cut link ends both, also where no portal reaches.

The machines are network namespaces, the agents and their workloads real processes; the all-reduce is our own.
"""

import time

import pytest

from agents.containers.processes import with_environment
from agents.group_format import Group, GroupLease, GroupNode
from agents.protocol import DesiredLease, Hello
from tests.agents import machines
from tests.agents.conftest import Node
from tests.agents.fake_portal import FakePortal, wait_for

REASON = machines.why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

OPTIONS = ("--engine", "process", "--group-silence-seconds", "3", "--group-check-seconds", "15")
# Each rank has a number; all learn the sum over the first one's port, by the interface that they were told.
ALL_REDUCE = """
import fcntl, os, socket, struct, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
with socket.socket() as probe:
    name = os.environ["NCCL_SOCKET_IFNAME"].encode()
    own = socket.inet_ntoa(fcntl.ioctl(probe, 0x8915, struct.pack("256s", name))[20:24])
mine = 10 ** rank
if rank == 0:
    with socket.create_server(where) as server:
        links = [server.accept()[0] for _ in range(size - 1)]
    total = mine + sum(int(link.recv(64)) for link in links)
    for link in links:
        link.sendall(str(total).encode())
else:
    deadline = time.monotonic() + 10
    while True:
        try:
            link = socket.create_connection(where, source_address=(own, 0))
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
    link.sendall(str(mine).encode())
    total = int(link.recv(64))
print("sum", total, "over", own, "as", rank, "on", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
time.sleep(600)
"""


class Rank(Node):
    """An agent on a machine of its own, with a portal that only it talks to."""

    def __init__(self, folder, machine: machines.Machine, number: int):
        folder.mkdir()
        portal = FakePortal(host=f"{machines.NET}.1")
        portal.up()
        super().__init__(folder, portal)
        self.machine, self.number = machine, number
        self.start_agent(*OPTIONS, through=machine.command())

    def rank_lease(self, group: Group) -> DesiredLease:
        return self.lease(
            7 + self.number, 300, rank=self.number, ranks=2, gpu_uuid=self.whole_gpu, profile="full", profile_id=None,
            size=8, command=("python", "-c", ALL_REDUCE), group=group, reservation_id=5)

    def output(self) -> str:
        engine = self.engine()
        return "".join(engine.log(each, 0, 4096)[1].decode() for each in engine.running())

    def is_empty(self) -> bool:
        return not self.workloads() and not with_environment("BERTH_LEASE", str(7 + self.number))

    def clear(self) -> None:
        super().clear()
        self.portal.stop()


@pytest.fixture
def ranks(tmp_path):
    with machines.two_machines() as two:
        made = [Rank(tmp_path / f"machine-{number}", machine, number) for number, machine in enumerate(two)]
        try:
            yield made
        finally:
            for rank in made:
                rank.clear()


def handed_out(ranks: list[Rank]) -> None:
    """Each agent gets its part of the group, as a portal would tell it after what they said of themselves."""
    hellos = [wait_for(lambda rank=rank: rank.portal.of(Hello), 20, rank.read_log)[0] for rank in ranks]
    nodes = tuple(GroupNode(f"node-{number}", hello.cluster_address, hello.driver_version, 1)
                  for number, hello in enumerate(hellos))
    assert [node.address for node in nodes] == [rank.machine.address for rank in ranks]
    assert [hello.cluster_interface for hello in hellos] == ["train0", "train0"]
    for rank in ranks:
        group = Group(nodes, rank.number, (GroupLease(7 + rank.number, rank.whole_gpu),), 29510, 29511, "a" * 32)
        rank.portal.want(rank.rank_lease(group))


def test_two_machines_add_up_and_a_cut_link_ends_both_and_leaves_nothing(ranks):
    handed_out(ranks)
    for rank in ranks:
        wait_for(lambda rank=rank: "sum 11 over" in rank.output(), 25, rank.read_log)
        assert f"over {rank.machine.address} as {rank.number} on {rank.whole_gpu}" in rank.output()
        assert rank.portal.event(7 + rank.number, "active")
    ranks[1].machine.cut()
    cut = time.monotonic()
    for rank in ranks:
        wait_for(rank.is_empty, 20, rank.read_log)
    assert time.monotonic() - cut < 20
    freed = ranks[0].portal.event(7, "freed")
    assert (freed.reason, freed.detail) == ("peer_lost", "node-1")
    assert ranks[1].portal.events(8)[-1].kind != "freed", "the portal cannot have heard of it"
    assert "peer_lost" in ranks[1].read_log()
