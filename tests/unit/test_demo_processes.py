"""The supervisor's ground: real processes that become ready, die, come back and stop; one stack per home."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from portal.demo.__main__ import end_left_over
from portal.demo.lock import HomeInUse, HomeLock, Running, is_held, started_at, stop_left_over, write_running
from portal.demo.ports import PortBusy, choose_port, is_free, wanted_port
from portal.demo.processes import Part, StartCancelled, StartFailed, spawn

NEVER = threading.Event()
DEADLINE_SECONDS = 20


@pytest.fixture
def part(tmp_path):
    made = []

    def make(source: str, **options) -> Part:
        log_file = tmp_path / "part.log"
        command = [sys.executable, "-u", "-c", source]
        made.append(Part("part", lambda: spawn(command, dict(os.environ), tmp_path, log_file), log_file, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def _until(condition) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_part_is_ready_when_its_probe_says_so_and_not_before(part):
    slow = part("import time; time.sleep(0.4); print('come in'); time.sleep(60)", ready=lambda it: it.said("come in"))
    slow.spawn()
    assert 0.3 < slow.wait_ready(NEVER) < DEADLINE_SECONDS


def test_what_an_earlier_start_said_does_not_count(part):
    again = part("import time; time.sleep(60)", ready=lambda it: it.said("come in"), ready_seconds=0.3)
    again.log_file.write_text("come in\n")
    again.spawn()
    with pytest.raises(StartFailed, match="not ready within"):
        again.wait_ready(NEVER)


def test_a_part_that_ends_at_once_fails_with_its_last_words(part):
    broken = part("raise SystemExit('no such database')", ready=lambda _: False)
    broken.spawn()
    with pytest.raises(StartFailed, match="no such database"):
        broken.wait_ready(NEVER)


def test_a_wait_that_nobody_wants_any_more_is_given_up(part):
    endless = part("import time; time.sleep(60)", ready=lambda _: False)
    endless.spawn()
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(StartCancelled):
        endless.wait_ready(cancelled)


def test_a_part_that_dies_comes_back_after_its_back_off(part):
    mortal = part("import time; time.sleep(60)")
    mortal.spawn()
    first = mortal.process.pid
    os.kill(first, signal.SIGKILL)
    _until(lambda: not mortal.alive)
    died = time.monotonic()
    assert not mortal.revive()
    _until(mortal.revive)
    assert time.monotonic() - died >= 1.0
    assert mortal.alive and mortal.process.pid != first and mortal.restarts == 1


def test_a_part_that_ignores_the_polite_signal_is_killed(part):
    deaf = part(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)",
        ready=lambda it: it.said("deaf"),
        stop_seconds=0.5,
    )
    deaf.spawn()
    deaf.wait_ready(NEVER)
    pid = deaf.process.pid
    deaf.stop()
    assert started_at(pid) == 0.0


def test_a_second_stack_on_one_home_is_refused_with_the_address_of_the_first(tmp_path):
    first = HomeLock(tmp_path)
    first.take()
    write_running(tmp_path, Running(os.getpid(), "http://127.0.0.1:8000", "x"))
    assert is_held(tmp_path)
    with pytest.raises(HomeInUse, match="http://127.0.0.1:8000"):
        HomeLock(tmp_path).take()
    first.release()
    assert not is_held(tmp_path)
    HomeLock(tmp_path).take()


def test_the_lock_of_a_killed_stack_is_free(tmp_path):
    source = (
        "import pathlib, sys, time; from portal.demo.lock import HomeLock;"
        "lock = HomeLock(pathlib.Path(sys.argv[1])); lock.take(); print('held'); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-u", "-c", source, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    assert is_held(tmp_path)
    holder.kill()
    holder.communicate()
    assert not is_held(tmp_path)


def test_what_a_killed_stack_left_is_stopped_and_a_stranger_with_its_pid_is_not(tmp_path):
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    ours, stranger = subprocess.Popen(sleeper), subprocess.Popen(sleeper)
    try:
        told = {"web": [ours.pid, started_at(ours.pid)], "worker": [stranger.pid, 12345.0]}
        write_running(tmp_path, Running(1, "", "", told))
        assert stop_left_over(tmp_path) == ["web"]
        assert started_at(ours.pid) == 0.0
        assert stranger.poll() is None
    finally:
        for process in (ours, stranger):
            process.kill()
            process.wait(5)


def test_secrets_of_a_running_stack_are_for_its_owner_alone(tmp_path):
    write_running(tmp_path, Running(1, "", "a-password"))
    assert Path(tmp_path / "stack.json").stat().st_mode & 0o077 == 0


def test_a_port_that_was_asked_for_and_is_taken_is_refused_with_a_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortBusy, match="PORT="):
            choose_port(taken.getsockname()[1])


@pytest.mark.parametrize("nonsense", ["abc", "0", "65536", "-1", "8000.5", "8" * 5000, "８０８０"])
def test_a_port_that_is_none_is_refused_with_a_sentence(nonsense):
    with pytest.raises(PortBusy, match="1 to 65535"):
        wanted_port(nonsense)
    assert wanted_port("") is None
    assert wanted_port("8080") == 8080


def test_without_a_wish_the_next_free_port_is_taken():
    port = choose_port(None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert port < choose_port(None) < 32768


def test_what_a_killed_demo_left_on_the_port_is_stopped_before_the_port_is_chosen(tmp_path, part):
    port = choose_port(None)
    web = part(f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)")
    web.spawn()
    _until(lambda: not is_free(port))
    write_running(tmp_path, Running(0, "", "", {"web": [web.process.pid, started_at(web.process.pid)]}))
    end_left_over(tmp_path)
    assert choose_port(port) == port
    assert not web.alive
