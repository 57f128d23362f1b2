"""The stack as a whole: what dies comes back, what is stopped leaves nothing, what is started again knows its data."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from portal.demo.lock import HomeInUse, is_held
from portal.demo.processes import StartCancelled
from portal.demo.supervisor import Stack
from tests.smoke.client import Client
from tests.smoke.conftest import free_port, left_over

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
BACK_SECONDS = 40


def _until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + BACK_SECONDS
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _answers(stack: Stack) -> bool:
    try:
        return Client(stack.url).get("/healthz").status == 200
    except OSError:
        return False


@pytest.mark.parametrize("name", ["web", "worker", "beat", "node quay-01"])
def test_a_part_that_is_killed_is_started_again(stack, name):
    part = stack.part(name)
    before, killed = part.restarts, part.process.pid
    os.kill(killed, signal.SIGKILL)
    _until(lambda: part.restarts > before and part.alive, f"{name} did not come back")
    _until(lambda: _answers(stack), "the web does not answer")
    assert part.process.pid != killed


def test_a_second_stack_on_the_same_home_is_refused(stack):
    with pytest.raises(HomeInUse, match=stack.url):
        Stack(stack.home, free_port(), own_servers=True).start()
    assert _answers(stack)


def test_a_start_that_is_given_up_halfway_leaves_nothing(tmp_path):
    stack = Stack(tmp_path / "home", free_port(), own_servers=True)

    def give_up(line: str) -> None:
        if "valkey" in line:
            stack.cancelled.set()

    stack._tell = give_up
    with pytest.raises(StartCancelled):
        stack.start()
    assert left_over(stack.home) == []
    assert not is_held(stack.home)


def test_stopping_leaves_nothing_and_starting_again_keeps_the_data(tmp_path):
    stack = Stack(tmp_path / "home", free_port(), own_servers=True)
    told: list[str] = []
    stack._tell = told.append
    with stack.running():
        assert stack.accounts
        identities = {path: path.read_bytes() for path in stack.home.glob("nodes/*/identity.json")}
        client = _signed_in(stack)
        devices = _devices(client)
        past = client.get("/api/v1/reservations/?state=ended", expect=200).json["results"]
    assert len(identities) == 3
    assert left_over(stack.home) == []
    stopped = [line.split()[0] for line in told if "stopping" in line]
    assert stopped == ["node", "node", "node", "web", "beat", "worker", "valkey", "postgres"]

    with stack.running():
        client = _signed_in(stack)
        assert _devices(client) == devices
        assert past and [client.get(f"/api/v1/reservations/{row['id']}/").json for row in past[:3]] == past[:3]
        assert {path: path.read_bytes() for path in identities} == identities
    assert left_over(stack.home) == []


def _signed_in(stack: Stack) -> Client:
    client = Client(stack.url)
    client.sign_in(stack.accounts[0]["email"], stack.password)
    return client


def _devices(client: Client) -> dict[str, list[str]]:
    nodes = client.get("/api/v1/fleet/?limit=200", expect=200).json["results"]
    return {node["name"]: [gpu["uuid"] for gpu in node["gpus"]] for node in nodes}
