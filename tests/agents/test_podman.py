"""Podman for real: a container on a simulated slice through a CDI spec sees its device and no other."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from agents.containers.cdi import CdiSpec, simulated_spec
from agents.containers.contract import EngineError, WorkloadRefused
from agents.containers.podman import PodmanEngine
from tests.agents.fake_portal import wait_for
from tests.agents.podman_service import IMAGE, PodmanMissing, PodmanService

pytestmark = pytest.mark.podman

CDI = Path("/etc/cdi")
MINE, OTHER = "MIG-11111111-aaaa-5aaa-aaaa-aaaaaaaaaaaa", "MIG-22222222-bbbb-5bbb-bbbb-bbbbbbbbbbbb"
LOOK = ("/bin/sh", "-c", "ls /dev/berth; env | sort; id -u; touch /x 2>/dev/null || echo read-only; exec sleep 600")


@pytest.fixture(scope="module")
def folder():
    """Short: Podman takes a runroot of 50 characters at most, and a test worker's own folder is longer."""
    with tempfile.TemporaryDirectory(prefix="berth-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def service(folder):
    try:
        service = PodmanService(folder)
    except PodmanMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"Podman cannot run here: {missing}")
        pytest.skip(f"Podman cannot run here: {missing}")
    yield service
    service.stop()


@pytest.fixture
def spec(tmp_path):
    name = f"test-{os.getpid()}-{tmp_path.name}"
    yield CdiSpec(CDI, name, simulated_spec)
    (CDI / f"berth-{name}.json").unlink(missing_ok=True)


@pytest.fixture
def engine(service, spec, request):
    engine = PodmanEngine(service.url, request.node.name, spec)
    yield engine
    for running in engine.running():
        engine.kill(running)
        wait_for(lambda one=running: gone(engine, one), 10)
        engine.remove(running)


def gone(engine, running):
    return all(each.name != running.name or not each.alive for each in engine.running())


def output(engine, running):
    return engine.log(running, -1, 65536)[1].decode()


def test_a_container_sees_its_slice_and_no_other(engine, spec, node):
    spec.ensure((MINE, OTHER))
    running = engine.start(node.lease(1, image=IMAGE, command=LOOK, environment={
        "NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": OTHER, "GREETING": "hello"}), MINE)
    assert engine.device_of(running) == MINE
    text = wait_for(lambda: "read-only" in output(engine, running) and output(engine, running), 10)
    assert MINE in text
    assert OTHER not in text
    assert f"CUDA_VISIBLE_DEVICES={MINE}\n" in text
    assert "NVIDIA_VISIBLE_DEVICES=void\n" in text
    assert "GREETING=hello\n" in text
    assert "\n1000\n" in text


def test_the_container_is_hardened_as_told(engine, service, spec, node):
    spec.ensure((MINE,))
    engine.start(node.lease(2, image=IMAGE, command=LOOK, cpus=0.5, memory_mib=64), MINE)
    facts = json.loads(service.podman("inspect", "berth-2-0"))[0]
    host = facts["HostConfig"]
    assert host["ReadonlyRootfs"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["PidsLimit"] == 4096
    assert host["Memory"] == host["MemorySwap"] == 64 << 20
    assert host["NetworkMode"] == "none"
    assert not host["Privileged"]
    assert not facts["EffectiveCaps"]
    assert host["RestartPolicy"]["Name"] in ("", "no")
    config = json.loads(Path(facts["OCIConfigPath"]).read_text())
    assert config["process"]["noNewPrivileges"]
    assert not any(config["process"].get("capabilities", {}).values())
    assert config["linux"]["resources"]["cpu"]["quota"] == 50_000


def test_a_device_that_no_spec_names_starts_nothing(engine, spec, node):
    spec.ensure((MINE,))
    with pytest.raises(EngineError, match="unresolvable"):
        engine.start(node.lease(3, image=IMAGE, command=LOOK), OTHER)
    assert engine.running() == ()


def test_an_image_that_is_not_here_is_refused_for_good_and_a_missing_command_is_an_exit(engine, spec, node):
    spec.ensure((MINE,))
    with pytest.raises(WorkloadRefused, match="not on this node"):
        engine.start(node.lease(4, image="localhost/nothing:1", command=LOOK), MINE)
    assert engine.running() == ()
    running = engine.start(node.lease(5, image=IMAGE, command=("/bin/nothing",)), MINE)
    wait_for(lambda: gone(engine, running), 10)
    assert engine.running()[0].exit_code != 0
    assert "No such file" in output(engine, running)


def test_a_second_start_adopts_and_term_kill_and_exit_codes_are_read_back(engine, spec, node):
    spec.ensure((MINE,))
    lease = node.lease(6, image=IMAGE, command=("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"))
    running = engine.start(lease, MINE)
    assert engine.start(lease, MINE).pids[0] == running.pids[0]
    wait_for(lambda: "up" in output(engine, running), 10)
    engine.stop(running, 5)
    assert not gone(engine, running)
    engine.kill(running)
    wait_for(lambda: gone(engine, running), 10)
    engine.kill(running)
    assert engine.running()[0].exit_code == 137
    engine.remove(running)
    engine.remove(running)
    assert engine.running() == ()


def test_a_name_that_a_foreign_container_holds_is_told_and_left_alone(engine, service, spec, node):
    spec.ensure((MINE,))
    service.podman("create", "--name", "berth-7-0", "--network", "none", IMAGE, "/bin/sleep", "9")
    with pytest.raises(EngineError, match="not ours"):
        engine.start(node.lease(7, image=IMAGE, command=LOOK), MINE)
    assert "berth-7-0" in service.podman("ps", "-a", "--format", "{{.Names}}")
    service.podman("rm", "berth-7-0")


def test_the_agent_runs_a_lease_in_a_container_and_adopts_it_after_being_killed(service, node, portal, monkeypatch):
    options = ("--engine", "podman", "--podman-url", service.url)
    spec_file = CDI / "berth-1.json"
    node.start_agent(*options)
    lease = node.lease(8, image=IMAGE, command=("/bin/sh", "-c", "echo up; exec sleep 600"))
    portal.want(lease)
    active = portal.event(8, "active", 15)
    assert active.mig_uuid in spec_file.read_text()
    before = service.podman("ps", "--format", "{{.ID}} {{.Names}}")
    node.end_agent(9)
    spec_file.unlink()
    seen = portal.connections
    node.start_agent(*options)
    wait_for(lambda: portal.connections > seen, 15, node.read_log)
    assert service.podman("ps", "--format", "{{.ID}} {{.Names}}") == before
    portal.want()
    freed = portal.event(8, "freed", 15)
    assert (freed.reason, freed.log_tail) == ("withdrawn", "up\n")
    assert "berth-8-0" not in service.podman("ps", "-a", "--format", "{{.Names}}")
    assert node.instances() == set()
    spec_file.unlink(missing_ok=True)
