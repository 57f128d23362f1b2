"""The installer as nodes get it: one command checks the machine, installs the agent, joins and serves. Run for real."""

import asyncio
import configparser
import os
import re
import shutil
import signal
import tarfile
import time
from pathlib import Path

import pytest
from django.test import Client

from agents.drivers.simulator import create_node
from portal.inventory.agent_package import agent_package, install_command, is_outdated
from portal.inventory.enrolment import new_enrolment_token
from portal.inventory.models import EnrolmentToken, Node
from portal.live.database import in_database
from tests.live.parts import some_nodes
from tests.live.test_over_the_network import address as address  # the fixture

WITHIN_SECONDS = 120


def installer() -> str:
    return Client().get("/agent/v1/install.sh").content.decode()


class Machine:
    """A folder in which the installer works as in the root of a node; what it prints is in ``said``."""

    def __init__(self, folder: Path, portal: str) -> None:
        self.folder, self.portal = folder, portal
        create_node(folder / "gpus.json", "installed", [{"model": "H100-80GB", "mig": True}])
        passed_on = {name: os.environ[name] for name in ("PATH", "PIP_CONFIG_FILE") if name in os.environ}
        self.environment = passed_on | {
            "HOME": str(folder), "BERTH_AGENT_SIMULATE": str(folder / "gpus.json"), "BERTH_AGENT_ENGINE": "process",
        }  # fmt: skip
        self.said = ""

    async def run(self, *options: str, script: str = "") -> asyncio.subprocess.Process:
        script = script or await asyncio.to_thread(installer)
        process = await asyncio.create_subprocess_exec(
            "sh", "-s", "--", "--prefix", f"{self.folder}/opt", "--state", f"{self.folder}/state", "--foreground",
            *options, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, env=self.environment)  # fmt: skip
        process.stdin.write(script.encode())
        process.stdin.close()
        return process

    async def finish(self, process: asyncio.subprocess.Process) -> int:
        self.said = (await asyncio.wait_for(process.stdout.read(), WITHIN_SECONDS)).decode()
        return await process.wait()

    async def stop(self, process: asyncio.subprocess.Process) -> int:
        process.send_signal(signal.SIGTERM)
        return await self.finish(process)


@pytest.fixture
def machine(address, tmp_path, settings):
    settings.PORTAL_URL = f"http://{address}"
    return Machine(tmp_path, settings.PORTAL_URL)


@in_database
def token_of(node: Node) -> str:
    return new_enrolment_token(node=node, actor=None)


@in_database
def seen_since(node: Node, moment: float) -> Node | None:
    row = Node.objects.get(pk=node.pk)
    return row if row.last_seen_at and row.last_seen_at.timestamp() > moment and row.boot_id else None


async def until_seen(node: Node, process: asyncio.subprocess.Process, moment: float) -> Node:
    give_up_at = time.monotonic() + WITHIN_SECONDS
    while (row := await seen_since(node, moment)) is None:
        assert process.returncode is None, (await process.stdout.read()).decode()
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0.1)
    return row


@pytest.mark.django_db(transaction=True)
async def test_one_command_installs_joins_and_serves_and_again_updates(machine):
    (node,) = await in_database(some_nodes)()
    began = time.time()
    process = await machine.run("--token", await token_of(node), "--name", "rack-1")
    row = await until_seen(node, process, began)
    assert row.agent_version == f"0.1.0+{agent_package().release}" and not is_outdated(row.agent_version)
    assert await machine.stop(process) == 0, machine.said
    for line in ("Self-test:", "ok   driver", "warn engine", "ok   clock", "Joined "):
        assert line in machine.said
    kept = (machine.folder / "opt/agent.env").read_text()
    assert "BERTH_AGENT_ENGINE=process" in kept and "TOKEN" not in kept
    del machine.environment["BERTH_AGENT_ENGINE"], machine.environment["BERTH_AGENT_SIMULATE"]
    began = time.time()
    process = await machine.run()
    await until_seen(node, process, began)
    assert await machine.stop(process) == 0
    assert "is installed already" in machine.said and "has joined before" in machine.said
    assert await machine.finish(await machine.run("--remove")) == 0
    assert not (machine.folder / "opt/releases").exists() and (machine.folder / "state/identity.json").exists()


@pytest.mark.django_db(transaction=True)
async def test_a_machine_that_does_not_do_spends_no_token(machine):
    """With what is installed already, so that only the self-test is new."""
    (node,) = await in_database(some_nodes)()
    token = await token_of(node)
    release = machine.folder / "opt/releases" / agent_package().release
    release.mkdir(parents=True)
    shutil.copytree(Path("agents"), release / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    (release / "venv").symlink_to(Path(".venv").resolve())
    (release / "complete").touch()
    (machine.folder / "gpus.json").unlink()
    assert await machine.finish(await machine.run("--token", token)) == 1
    assert "fail driver" in machine.said and "the token is not spent" in machine.said
    assert await in_database(EnrolmentToken.objects.filter(used_at=None).count)() == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "give --token TOKEN"), (("--token",), "wants a value"), (("--pool", "x"), "is no option"),
     (("--state", "here"), "is not an absolute path"), (("--prefix", "/opt/a b"), "letters, digits"),
     (("--token", "t", "--python", "/no/python"), "Python 3.11 or newer is needed")])  # fmt: skip
async def test_what_does_not_do_is_said_before_anything_is_installed(machine, options, said):
    assert await machine.finish(await machine.run(*options)) == 1
    assert said in machine.said
    assert not (machine.folder / "opt").exists()


async def test_an_agent_that_came_damaged_is_not_installed(machine):
    damaged = (await asyncio.to_thread(installer)).replace(agent_package().sha256, "0" * 64)
    assert await machine.finish(await machine.run("--token", "t", script=damaged)) == 1
    assert "came damaged" in machine.said


def test_a_download_that_was_cut_short_does_nothing():
    whole = installer()
    assert whole.rstrip().endswith('main "$@"')
    before = whole[: whole.rindex('main "$@"')]
    assert not re.findall(r"^(?!#|[A-Z0-9]+=|set -eu|\s|[a-z_]+\(\) {|}|$).+", outside_heredocs(before), re.M)


def outside_heredocs(script: str) -> str:
    return re.sub(r"<<'?(HELP|WRAPPER|UNIT|FETCH)'?\n.*?\n\1\n", "\n", script, flags=re.S)


def test_the_service_keeps_workloads_and_comes_back():
    script = installer()
    unit = configparser.ConfigParser(strict=True)
    unit.optionxform = str
    unit.read_string(re.search(r"<<UNIT\n(.*?)\nUNIT\n", script, re.S)[1])
    service = dict(unit["Service"])
    assert service["ExecStart"] == "$prefix/current/venv/bin/python -m agents run"
    assert (service["KillMode"], service["Restart"]) == ("process", "always")


def test_the_archive_is_the_agent_and_nothing_else(tmp_path, settings):
    answer = Client().get("/agent/v1/agent.tar.gz")
    (tmp_path / "agent.tar.gz").write_bytes(answer.content)
    agent_package.cache_clear()
    assert agent_package().content == answer.content
    with tarfile.open(tmp_path / "agent.tar.gz") as tar:
        names = tar.getnames()
        assert {(entry.uid, entry.mtime, entry.mode) for entry in tar} == {(0, 0, 0o644)}
    assert {"agents/__main__.py", "agents/requirements.txt", "agents/drivers/simulator/models/A30.json"} <= set(names)
    assert not [name for name in names if not name.startswith("agents/") or "__pycache__" in name]


def test_with_wheels_the_node_asks_no_index(tmp_path, settings):
    settings.AGENT_WHEELS = str(tmp_path)
    (tmp_path / "msgspec-0-py3-none-any.whl").write_bytes(b"wheel")
    agent_package.cache_clear()
    try:
        assert agent_package().has_wheels
        assert '--no-index --find-links "$release/wheels"' in installer()
    finally:
        agent_package.cache_clear()


def test_a_portals_address_cannot_break_out_of_the_script(settings):
    settings.PORTAL_URL = "https://berth.example.org/$(reboot)"
    assert "PORTAL='https://berth.example.org/$(reboot)'" in installer()


def test_a_name_is_quoted_in_the_command():
    assert install_command("t", "rack 1; reboot").endswith("| sudo sh -s -- --token t --name 'rack 1; reboot'")
    assert is_outdated("0.1.0+000000000000") and not is_outdated("0.1.0")
