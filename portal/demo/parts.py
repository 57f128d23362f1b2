"""The processes a stack consists of: what each runs, when it is ready, how it stops. Imports no Django."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from agents.drivers.simulator.node import create_node
from portal.demo.places import Places
from portal.demo.processes import Part, StartFailed, spawn
from portal.demo.servers import start_postgres, start_valkey
from portal.demo.simulated import SimulatedNode

ROOT = Path(__file__).resolve().parents[2]
ENROL_SECONDS = 30
# What uses something stops before it; a node stops with its workloads while the portal still hears its report.
STOP_ORDER = ("node", "web", "beat", "worker", "valkey", "postgres")

Environment = dict[str, str]


def postgres(places: Places) -> Part:
    return Part("postgres", lambda: start_postgres(places), places.logs / "postgres.log", how=signal.SIGINT)


def valkey(places: Places) -> Part:
    return Part("valkey", lambda: start_valkey(places), places.logs / "valkey.log")


def web(places: Places, environment: Environment, port: int, answers: Callable[[Part], bool]) -> Part:
    arguments = ["uvicorn", "portal.asgi:application", "--host", "127.0.0.1", "--port", str(port),
                 "--no-access-log", "--timeout-graceful-shutdown", "5", "--ws-max-size", str(2 << 20)]  # fmt: skip
    return _python("web", places, environment, arguments, answers)


def worker(places: Places, environment: Environment) -> Part:
    arguments = ["celery", "-A", "portal.celery:app", "worker", "-Q", "control,reports", "-c", "2",
                 "--without-gossip", "--without-mingle", "-l", "info"]  # fmt: skip
    return _python("worker", places, environment, arguments, lambda part: part.said(" ready."))


def beat(places: Places, environment: Environment) -> Part:
    arguments = ["celery", "-A", "portal.celery:app", "beat", "-l", "info", "--pidfile="]
    return _python("beat", places, environment, arguments, lambda part: part.said("beat: Starting"))


def agent(places: Places, node: SimulatedNode, url: str) -> Part:
    """As on a real node, it gets nothing of the portal's environment: what it knows came with its enrolment, and the
    address, since another start may take another port."""
    state = node_state(places.home, node)
    arguments = ["agents", "run", "--portal", url, "--state", str(state), "--simulate", str(state / "machine.json"),
                 "--engine", "process", "--stop-workloads"]  # fmt: skip
    return _python(f"node {node.name}", places, _bare(), arguments, lambda _: True)


def make_machine(home: Path, node: SimulatedNode) -> None:
    """The simulated machine's own file, made the first time; what is on its GPUs outlives the agent."""
    machine = node_state(home, node) / "machine.json"
    if not machine.exists():
        create_node(machine, node.name, [{"model": model, "mig": mig} for model, mig in node.gpus])


def node_state(home: Path, node: SimulatedNode) -> Path:
    return home / "nodes" / node.name


def is_enrolled(home: Path, node: SimulatedNode) -> bool:
    return (node_state(home, node) / "identity.json").exists()


def enrol(home: Path, node: SimulatedNode, url: str, token: str) -> None:
    """Join as ``node``: the agent keeps its credential in the node's own folder."""
    state = str(node_state(home, node))
    done = subprocess.run(
        [sys.executable, "-m", "agents", "enrol",
         "--portal", url, "--token", token, "--state", state, "--name", node.name],
        env=_bare(), cwd=ROOT, capture_output=True, text=True, timeout=ENROL_SECONDS, start_new_session=True,
    )  # fmt: skip
    if done.returncode:
        raise StartFailed(f"{node.name} could not join: {done.stderr.strip()[-800:]}")


def _bare() -> Environment:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"PYTHONUNBUFFERED": "1"}


def _python(
    name: str, places: Places, environment: Environment, arguments: list[str], ready: Callable[[Part], bool]
) -> Part:
    log_file = places.logs / f"{name.replace(' ', '-')}.log"
    command = [sys.executable, "-m", *arguments]
    return Part(name, lambda: spawn(command, environment, ROOT, log_file), log_file, ready)
