"""The process runtime: real processes, found again by disk and start time, capped and cleared whole."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from agents.containers import logfiles
from agents.containers.contract import EngineError, WorkloadRefused
from agents.containers.logfiles import LogWriter, read_log
from agents.containers.process import ProcessEngine
from agents.containers.processes import start_ticks, with_environment
from tests.agents.fake_portal import wait_for

DEVICE = "MIG-00000000-0000-5000-8000-000000000000"
RUNAWAY = ("python", "-c", "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(600)\n"
           " os._exit(0)\nprint('parent', flush=True); time.sleep(600)")


@pytest.fixture
def engine(node):
    return node.engine()


def ended(engine):
    return lambda: all(not running.alive for running in engine.running())


def runaway_settled(engine):
    """The parent and the one that slipped out of its session: what forked that one leads a session until it is gone."""
    def look():
        pids = engine.running()[0].pids
        leaders = [pid for pid in pids if leads_a_session(pid)]
        return engine.running() if len(pids) == 2 and len(leaders) == 1 else None
    return look


def leads_a_session(pid):
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def run_to_end(engine, lease):
    engine.start(lease, DEVICE)
    wait_for(ended(engine), 10)
    return engine.running()[0]


def test_another_engine_on_the_same_folder_finds_what_runs(node, engine):
    started = engine.start(node.lease(1), DEVICE)
    other = ProcessEngine(node.state)
    (found,) = other.running()
    assert (found.lease_id, found.attempt, found.alive) == (1, 0, True)
    assert other.device_of(found) == DEVICE
    assert other.start(node.lease(1), DEVICE).pids == started.pids


def test_a_pid_that_is_now_somebody_else_is_not_the_workload(node, engine):
    running = engine.start(node.lease(2), DEVICE)
    engine.kill(running)
    wait_for(ended(engine), 10)
    folder = node.state / "workloads" / running.name
    (folder / "exit.json").unlink()
    me = os.getpid()
    stranger = {"keeper_pid": me, "keeper_ticks": start_ticks(me) - 1, "pid": me, "ticks": start_ticks(me) - 1}
    (folder / "child.json").write_text(json.dumps(stranger))
    (found,) = ProcessEngine(node.state).running()
    assert not found.alive
    assert engine.device_of(found) is None
    engine.kill(found)


def test_children_that_slip_out_of_the_group_die_with_the_workload(node, engine):
    running = engine.start(node.lease(3, command=RUNAWAY), DEVICE)
    wait_for(runaway_settled(engine), 5)
    pids = engine.running()[0].pids
    engine.stop(running, 5)
    wait_for(ended(engine), 5)
    assert [start_ticks(pid) for pid in pids] == [None, None]
    assert engine.running()[0].exit_code == 128 + signal.SIGTERM


def test_killing_reaches_everything_even_when_the_keeper_is_gone(node, engine):
    engine.start(node.lease(4, command=RUNAWAY), DEVICE)
    wait_for(runaway_settled(engine), 5)
    pids = engine.running()[0].pids
    facts = json.loads((node.state / "workloads" / "4-0" / "child.json").read_text())
    os.kill(facts["keeper_pid"], signal.SIGKILL)
    (running,) = wait_for(engine.running, 1)
    assert running.alive
    engine.kill(running)
    wait_for(lambda: [start_ticks(pid) for pid in pids] == [None, None], 5)


def test_a_workload_that_kills_its_keeper_at_once_leaves_nothing_behind(node, engine):
    lease = node.lease(10, command=("sh", "-c", "kill -9 $PPID; sleep 600"))
    with contextlib.suppress(EngineError):  # the keeper may be quick enough to say ready before it dies
        engine.kill(engine.start(lease, DEVICE))
    wait_for(lambda: with_environment("BERTH_WORKLOAD", str(node.state / "workloads" / "10-0")) == (), 5)


def test_what_outlives_keeper_and_command_is_killed_before_the_workload_is_removed(node, engine):
    engine.start(node.lease(11, command=RUNAWAY), DEVICE)
    (running,) = wait_for(runaway_settled(engine), 5)
    facts = json.loads((node.state / "workloads" / "11-0" / "child.json").read_text())
    os.kill(facts["keeper_pid"], signal.SIGKILL)
    os.kill(facts["pid"], signal.SIGKILL)
    (left,) = (pid for pid in running.pids if pid != facts["pid"])
    wait_for(ended(engine), 5)
    with pytest.raises(EngineError, match="left processes behind"):
        engine.remove(running)
    wait_for(lambda: start_ticks(left) is None, 5)
    engine.remove(running)
    assert engine.running() == ()


def test_a_keeper_whose_agent_died_before_its_word_goes_on(node, engine):
    folder = node.state / "workloads" / "12-0"
    (folder / "home").mkdir(parents=True)
    spec = {"lease_id": 12, "command": ["echo", "on"], "environment": {}, "cpus": None, "memory_mib": None}
    (folder / "spec.json").write_text(json.dumps(spec))
    nobody_reads, ready = os.pipe()
    os.close(nobody_reads)
    command = [sys.executable, "-m", "agents.containers.keeper", str(folder), str(ready)]
    keeper = subprocess.run(command, pass_fds=(ready,), stderr=subprocess.PIPE, timeout=20, check=False)
    os.close(ready)
    assert (keeper.returncode, keeper.stderr) == (0, b"")
    (found,) = engine.running()
    assert (found.alive, found.exit_code, engine.log(found, 0, 100)) == (False, 0, (0, b"on\n"))


def test_a_flood_of_output_is_capped_and_its_end_is_kept(node, engine, tmp_path):
    flood = "import sys\nfor n in range(90): sys.stdout.write(chr(97 + n % 26) * 1_000_000)\nprint('the end')"
    running = run_to_end(engine, node.lease(5, command=("python", "-c", flood)))
    kept = sum(path.stat().st_size for path in (node.state / "workloads" / running.name / "log").iterdir())
    assert kept <= logfiles.FILE_BYTES * logfiles.FILES_KEPT
    begin, tail = engine.log(running, -1, 100)
    assert tail.endswith(b"the end\n")
    assert begin == 90_000_000 + len("the end\n") - 100
    assert engine.log(running, 0, 10)[0] > 0


def test_output_is_read_across_files_from_any_offset(tmp_path, monkeypatch):
    monkeypatch.setattr(logfiles, "FILE_BYTES", 10)
    writer = LogWriter(tmp_path)
    for piece in (b"0123456", b"789abcdefgh", b"ijklmnopqrstuvwxyz"):
        writer.write(piece)
    writer.close()
    assert read_log(tmp_path, 10, 100) == (10, b"abcdefghijklmnopqrstuvwxyz")
    assert read_log(tmp_path, 18, 4) == (18, b"ijkl")
    assert read_log(tmp_path, -1, 3) == (33, b"xyz")
    assert read_log(tmp_path, 0, 5) == (10, b"abcde")
    assert read_log(tmp_path, 99, 5) == (36, b"")
    assert read_log(tmp_path / "none", -1, 5) == (0, b"")


def test_memory_beyond_the_limit_ends_the_workload_and_not_the_machine(node, engine):
    eat = ("python", "-c", "x = bytearray(300 * 1024 * 1024); print(len(x))")
    assert run_to_end(engine, node.lease(6, command=eat, memory_mib=64)).exit_code == 1


@pytest.mark.parametrize("command", [(), ("",), ("-c", "x"), ("echo", "a\0b"), ("no-such-program",)])
def test_a_command_that_is_none_is_refused_for_good_and_leaves_nothing(node, engine, command):
    with pytest.raises(WorkloadRefused):
        engine.start(node.lease(7, command=command), DEVICE)
    assert engine.running() == ()
    assert list((node.state / "workloads").iterdir()) == []


@pytest.mark.parametrize("environment", [{"A=B": "x"}, {"1X": "x"}, {"": "x"}, {"OK": "a\0b"}, {"OK": "x" * 9000}])
def test_names_and_values_that_are_none_are_refused(node, engine, environment):
    with pytest.raises(WorkloadRefused):
        engine.start(node.lease(8, environment=environment), DEVICE)


def test_a_workload_that_runs_is_not_removed(node, engine):
    running = engine.start(node.lease(9), DEVICE)
    with pytest.raises(EngineError, match="still runs"):
        engine.remove(running)
    engine.kill(running)
    wait_for(ended(engine), 5)
    engine.remove(running)
    assert engine.running() == ()
