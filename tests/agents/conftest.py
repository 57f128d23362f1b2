"""A simulated node, a portal on loopback and the real agent as its own process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from agents.containers.process import ProcessEngine
from agents.drivers.simulator import NodeFile, create_node
from agents.enrolment import Identity
from agents.protocol import DesiredLease, WorkloadSpec
from tests.agents.fake_portal import FakePortal, wait_for

ROOT = Path(__file__).resolve().parents[2]
SLEEP = ("python", "-c", "import time; print('up', flush=True); time.sleep(600)")


class Node:
    """A simulated machine: GPU 0 is an H100 with MIG, GPU 1 an H100 without, and the agent's state folder."""

    def __init__(self, folder: Path, portal: FakePortal) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        self.file = folder / "node.json"
        made = create_node(self.file, f"node-{folder.name}-{os.getpid()}", [
            {"model": "H100-80GB", "mig": True}, {"model": "H100-80GB", "mig": False}])
        self.mig_gpu, self.whole_gpu = (gpu.uuid for gpu in made.gpus)
        self.portal = portal
        self.agent: subprocess.Popen | None = None
        self.log = folder / "agent.log"
        identity = Identity(portal.url, 1, "node", "secret")
        (self.state / "identity.json").write_bytes(msgspec.json.encode(identity))

    def lease(self, lease_id: int, seconds: float = 60, begins: float = -0.5, **more) -> DesiredLease:
        """A 1g on slice 0 from now on, unless told otherwise."""
        now = time.time()
        workload = {"image": "none", "command": SLEEP, "grace_seconds": 1}
        for name in ("command", "environment", "grace_seconds", "cpus", "memory_mib", "image"):
            if name in more:
                workload[name] = more.pop(name)
        facts = {
            "lease_id": lease_id, "reservation_id": 100 + lease_id, "tenant_id": 1, "rank": 0, "ranks": 1,
            "gpu_uuid": self.mig_gpu, "profile": "1g.10gb", "profile_id": 19, "start": 0, "size": 1,
            "starts_at": now + begins, "ends_at": now + begins + seconds, "workload": WorkloadSpec(**workload)}
        return DesiredLease(**(facts | more))

    def start_agent(self, *options: str, through: Sequence[str] = ()) -> None:
        """``through`` is a command that runs it elsewhere."""
        command = [*through, sys.executable, "-m", "agents", "run", "--state", str(self.state),
                   "--simulate", str(self.file), *(options or ("--engine", "process"))]
        with open(self.log, "ab") as log:
            self.agent = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def end_agent(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.agent is not None:
            self.agent.send_signal(number)
            self.agent.wait(70)
            self.agent = None

    def engine(self) -> ProcessEngine:
        return ProcessEngine(self.state)

    def workloads(self) -> list:
        return [each for each in self.engine().running() if each.alive]

    def instances(self) -> set[tuple[str, int, int]]:
        """What is on the simulated device now: GPU, first slice, size."""
        return {(gpu.uuid, each.start, each.size) for gpu in NodeFile(self.file).read().gpus for each in gpu.instances}

    def read_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def clear(self) -> None:
        self.end_agent(signal.SIGKILL)
        engine = self.engine()
        for running in engine.running():
            if running.alive:
                engine.kill(running)
        wait_for(lambda: not self.workloads(), 10)


@pytest.fixture
def portal():
    portal = FakePortal()
    portal.up()
    yield portal
    portal.stop()


@pytest.fixture
def node(tmp_path, portal):
    node = Node(tmp_path, portal)
    yield node
    node.clear()


@pytest.fixture
def served(node):
    """A node whose agent is connected."""
    node.start_agent()
    wait_for(lambda: node.portal.frames, 15, node.read_log)
    return node
