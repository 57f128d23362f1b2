"""Workloads as plain processes, for machines without a container engine. Same contract, no isolation but the lease's.

Each workload has a folder ``STATE/workloads/LEASE-ATTEMPT`` and a keeper process (:mod:`agents.containers.keeper`) that
outlives the agent. Everything is found again from the folder and /proc; a pid counts only with its start time.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agents.containers.contract import EngineError, HostUse, Running, WorkloadRefused
from agents.containers.environment import checked_command, lease_environment
from agents.containers.fence import write_fence
from agents.containers.hostuse import HostMeter
from agents.containers.logfiles import read_log
from agents.containers.processes import (
    children_by_parent,
    descendants,
    environment_of,
    is_same,
    send,
    send_group,
    with_environment,
)
from agents.diskfiles import write_atomically
from agents.protocol import DesiredLease

_START_SECONDS = 15.0
_CLEAR_SECONDS = 2.0
_ROOT = Path(__file__).resolve().parents[2]
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class _Pids:
    keeper: int
    keeper_ticks: int
    child: int
    child_ticks: int

    def keeper_lives(self) -> bool:
        return is_same(self.keeper, self.keeper_ticks)

    def child_lives(self) -> bool:
        return is_same(self.child, self.child_ticks)


class ProcessEngine:
    """See :class:`agents.containers.contract.Engine`. One agent, one folder."""

    name = "process"

    def __init__(self, state: Path, interface: Callable[[], str] = str) -> None:
        """``interface`` tells over which one the ranks of a group talk."""
        self._interface = interface
        self._folder = (state / "workloads").resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = threading.Lock()
        self._meter = HostMeter()

    def running(self) -> tuple[Running, ...]:
        self._reap()
        folders = sorted(self._folder.iterdir())
        children = children_by_parent() if folders else {}
        found = (self._read(folder, children) for folder in folders)
        return tuple(running for running in found if running is not None)

    def start(self, lease: DesiredLease, device: str) -> Running:
        folder = self._folder / f"{lease.lease_id}-{lease.attempt}"
        present = self._read(folder)
        if present is not None and present.alive:
            return present
        command = checked_command(lease)
        environment = self._environment(lease, device, folder)
        if folder.exists():
            shutil.rmtree(folder)
        (folder / "home").mkdir(parents=True, mode=0o700)
        spec = {"lease_id": lease.lease_id, "command": command, "environment": environment,
                "cpus": lease.workload.cpus, "memory_mib": lease.workload.memory_mib}
        write_atomically(folder / "spec.json", json.dumps(spec).encode())
        try:
            self._launch(folder)
        except EngineError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        started = self._read(folder)
        if started is None:
            raise EngineError("The workload was started but cannot be found again.")
        return started

    def device_of(self, running: Running) -> str | None:
        pids = self._pids(running.name)
        if pids is None or not pids.child_lives():
            return None
        return environment_of(pids.child).get("CUDA_VISIBLE_DEVICES")

    def stop(self, running: Running, grace_seconds: float) -> None:
        pids = self._pids(running.name)
        if pids is None:
            return
        order = json.dumps({"grace_seconds": grace_seconds}).encode()
        write_atomically(self._folder / running.name / "stop.json", order)
        if pids.keeper_lives():
            send(pids.keeper, signal.SIGTERM)
        elif pids.child_lives() and grace_seconds > 0:
            send_group(pids.child, signal.SIGTERM)

    def fence(self, running: Running, seconds_to_term: float, seconds_to_kill: float) -> None:
        write_fence(self._folder / running.name, seconds_to_term, seconds_to_kill)

    def kill(self, running: Running) -> None:
        self.stop(running, 0)
        pids = self._pids(running.name)
        if pids is not None and pids.child_lives():
            send_group(pids.child, signal.SIGKILL)
        self._kill_marked(running.name)

    def remove(self, running: Running) -> None:
        current = self._read(self._folder / running.name)
        if current is not None and current.alive:
            raise EngineError(f"Workload {running.name} still runs.")
        if self._kill_marked(running.name):
            raise EngineError(f"Workload {running.name} left processes behind; they are being killed.")
        self._meter.forget(running.name)
        shutil.rmtree(self._folder / running.name, ignore_errors=True)

    def log(self, running: Running, offset: int, limit: int) -> tuple[int, bytes]:
        return read_log(self._folder / running.name / "log", offset, limit)

    def host_use(self, running: Running) -> HostUse:
        return self._meter.measure(running.name, running.pids)

    def _environment(self, lease: DesiredLease, device: str, folder: Path) -> dict[str, str]:
        plain = {"PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}
        fixed = {"PATH": f"{Path(sys.executable).parent}:{_SYSTEM_PATH}", "HOME": str(folder / "home"),
                 "BERTH_WORKLOAD": str(folder)}
        return plain | lease_environment(lease, device, self._interface()) | fixed

    def _launch(self, folder: Path) -> None:
        """Start the keeper and wait for its word: ready, or why the command cannot be started."""
        ready_read, ready_write = os.pipe()
        try:
            with open(folder / "keeper.log", "ab") as errors:
                keeper = subprocess.Popen(
                    [sys.executable, "-m", "agents.containers.keeper", str(folder), str(ready_write)],
                    cwd=_ROOT, env={"PATH": _SYSTEM_PATH, "PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8"},
                    stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True,
                    pass_fds=(ready_write,))
            os.close(ready_write)
            ready_write = -1
            with self._guard:
                self._keepers[folder.name] = keeper
            word = _first_word(ready_read)
        finally:
            os.close(ready_read)
            if ready_write >= 0:
                os.close(ready_write)
        if word == "ready":
            return
        keeper.kill()
        keeper.wait()
        self._clear_marked(folder.name)
        if word.startswith("error "):
            raise WorkloadRefused(f"The command cannot be started: {word.removeprefix('error ')}")
        raise EngineError(f"The keeper of the workload did not start: {_end_of(folder / 'keeper.log')}")

    def _kill_marked(self, name: str) -> bool:
        """KILL what carries the workload's mark, whether a keeper is above it or just died; whether there was any."""
        left = with_environment("BERTH_WORKLOAD", str(self._folder / name))
        for pid in left:
            send(pid, signal.SIGKILL)
        return bool(left)

    def _clear_marked(self, name: str) -> None:
        """The same until none is left: a workload may kill its keeper and fork while it is being looked for."""
        give_up_at = time.monotonic() + _CLEAR_SECONDS
        while self._kill_marked(name) and time.monotonic() < give_up_at:
            select.select([], [], [], 0.02)

    def _read(self, folder: Path, children: dict[int, list[int]] | None = None) -> Running | None:
        """The workload of a folder; None when it never came to a process."""
        lease_id, _, attempt = folder.name.partition("-")
        pids = self._pids(folder.name)
        if pids is None or not (lease_id.isdigit() and attempt.isdigit()):
            return None
        alive = not (folder / "exit.json").exists() and (pids.child_lives() or pids.keeper_lives())
        if not alive:
            return Running(int(lease_id), int(attempt), folder.name, False, _exit_code(folder / "exit.json"))
        whole = pids.keeper_lives()
        below = descendants(pids.keeper, children) if whole else (pids.child, *descendants(pids.child, children))
        return Running(int(lease_id), int(attempt), folder.name, True, pids=below, ending=not pids.child_lives())

    def _pids(self, name: str) -> _Pids | None:
        try:
            facts = json.loads((self._folder / name / "child.json").read_bytes())
            return _Pids(facts["keeper_pid"], facts["keeper_ticks"], facts["pid"], facts["ticks"])
        except (OSError, ValueError, KeyError):
            return None

    def _reap(self) -> None:
        """Collect keepers that have ended, so that they are no zombies."""
        with self._guard:
            self._keepers = {name: keeper for name, keeper in self._keepers.items() if keeper.poll() is None}


def _first_word(descriptor: int) -> str:
    """What the keeper says first, or nothing when it ended or stayed silent."""
    if not select.select([descriptor], [], [], _START_SECONDS)[0]:
        return ""
    return os.read(descriptor, 8192).decode(errors="replace")


def _exit_code(path: Path) -> int | None:
    try:
        return int(json.loads(path.read_bytes())["exit_code"])
    except (OSError, ValueError, KeyError):
        return None


def _end_of(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else "it said nothing."
