"""Joining a portal over real HTTP, and what an operator reads when it does not work."""

import json
import os
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agents.enrolment import enrol, read_identity
from agents.protocol import VERSION
from agents.settings import parse, run_settings

ROOT = Path(__file__).resolve().parents[2]


class Door(BaseHTTPRequestHandler):
    """Takes the token `good` once."""

    spent: list[dict] = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/agent/v1/enrol" or body["token"] != "good" or self.spent:
            return self.answer(403, {"detail": "The token is not valid or was used."})
        self.spent.append(body)
        return self.answer(200, {"node_id": 7, "node_name": "n7", "credential": "s3cret"})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        return


@pytest.fixture
def door():
    Door.spent = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def agents(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "agents", *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=30, env={**os.environ, **environment})


def test_a_good_token_gives_an_identity_that_only_the_owner_can_read(door, tmp_path):
    done = agents("enrol", "--portal", door + "/", "--token", "good", "--state", str(tmp_path), "--name", "box")
    assert (done.returncode, done.stdout) == (0, f"Joined {door} as node n7.\n")
    file = tmp_path / "identity.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {
        "portal": door, "node_id": 7, "node_name": "n7", "credential": "s3cret"}
    assert Door.spent == [{"token": "good", "hostname": "box", "version": VERSION}]
    again = agents("enrol", "--portal", door, "--token", "good", "--state", str(tmp_path))
    assert again.returncode == 1
    assert "has joined already" in again.stderr


def test_a_wrong_token_is_refused_with_the_portals_words_and_leaves_nothing(door, tmp_path):
    done = agents("enrol", BERTH_AGENT_PORTAL=door, BERTH_AGENT_TOKEN="bad", BERTH_AGENT_STATE=str(tmp_path))
    assert done.returncode == 1
    assert "not valid or was used" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "words"), [
    (("enrol", "--portal", "http://127.0.0.1:9", "--token", "t", "--state", "S"), "cannot be reached"),
    (("enrol", "--portal", "berth.example.org", "--token", "t", "--state", "S"), "address with --portal"),
    (("enrol", "--portal", "http://127.0.0.1:9", "--state", "S"), "enrolment token"),
    (("run", "--state", "S"), "has not joined"),
    (("run",), "--state"),
])
def test_what_is_missing_is_said_in_one_sentence(arguments, words, tmp_path):
    done = agents(*(str(tmp_path) if item == "S" else item for item in arguments))
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_second_agent_on_the_same_state_is_refused(served):
    done = agents("run", "--state", str(served.state), "--simulate", str(served.file), "--engine", "process")
    assert done.returncode == 1
    assert "Another agent works" in done.stderr


def test_the_process_engine_is_never_a_default(monkeypatch):
    monkeypatch.delenv("BERTH_AGENT_ENGINE", raising=False)
    assert run_settings(parse(["run", "--state", "x"])).engine == "podman"
    monkeypatch.setenv("BERTH_AGENT_ENGINE", "process")
    assert run_settings(parse(["run", "--state", "x"])).engine == "process"
    monkeypatch.setenv("BERTH_AGENT_ENGINE", "magic")
    with pytest.raises(ValueError, match="podman or process"):
        run_settings(parse(["run", "--state", "x"]))


def test_an_agent_follows_its_portal_to_another_address(door, tmp_path):
    enrol(door, "good", tmp_path, "n7")
    moved = run_settings(parse(["run", "--state", str(tmp_path), "--portal", "https://berth.example.org/"])).portal
    assert read_identity(tmp_path).portal == door
    assert read_identity(tmp_path, moved).socket_url() == "wss://berth.example.org/agent/v1/socket"
