"""A whole Berth as processes: servers, web, worker, beat and simulated nodes. The demo and the tests run it.

Imports no Django: what needs it runs as a process of its own, in the stack's environment.
"""

import http.client
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from portal.demo import parts
from portal.demo.lock import HomeLock, Running, started_at, stop_left_over, write_running
from portal.demo.places import places_of
from portal.demo.processes import Part, StartCancelled, StartFailed
from portal.demo.simulated import NODES, SimulatedNode

log = logging.getLogger(__name__)

SETUP_SECONDS = 300
NODES_SECONDS = 60
WATCH_SECONDS = 0.5


class Stack:
    """Start it, use ``url`` and ``password``, stop it; or ``with stack.running():``.

    ``calendar`` fills it with past use and bookings. ``own_servers`` starts PostgreSQL and Valkey in ``home`` even
    where DATABASE_URL and REDIS_URL name others. ``tell`` gets one line per step. ``cancelled`` may be set from a
    signal handler: it ends ``start`` with StartCancelled and ``watch`` in peace. Nothing is left running after
    ``stop()``, nor after a ``start()`` that raises.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        *,
        password: str = "berth-demo",
        nodes: tuple[SimulatedNode, ...] = NODES,
        own_servers: bool = False,
        calendar: bool = True,
        settings: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = log.info,
    ) -> None:
        self.home = home.resolve()
        self.password = password
        self.url = f"http://127.0.0.1:{port}"
        self.nodes = nodes
        self.accounts: list[dict[str, str]] = []
        self.cancelled = threading.Event()
        self._port = port
        self._calendar = calendar
        self._tell = tell
        self._places = places_of(self.home)
        self._lock = HomeLock(self.home)
        self._parts: list[Part] = []
        self._environment = self._make_environment(own_servers, settings or {})

    def start(self) -> float:
        """Returns the seconds until everything was ready; raises StartFailed or HomeInUse with a sentence."""
        began = time.monotonic()
        self._lock.take()
        try:
            for name in stop_left_over(self.home):
                self._tell(f"  {name:<12} left over by a stack that was killed: stopped")
            self._start_servers()
            tokens = self._set_up()
            self._start_portal()
            self._start_nodes(tokens)
            if self._calendar:
                self._step("calendar", "seed_bookings")
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - began

    def stop(self) -> None:
        """Nodes with their workloads first, then web, beat, worker and the servers that all of them use."""
        for kind in parts.STOP_ORDER:
            together = [part for part in self._parts if part.name.split()[0] == kind]
            for part in together:
                self._tell(f"  {part.name:<12} stopping")
                part.ask_to_stop()
            for part in together:
                part.stop()
        self._parts.clear()
        self._lock.release()

    def watch(self) -> None:
        """Start again what dies, with back-off, until ``cancelled`` is set."""
        while not self.cancelled.wait(WATCH_SECONDS):
            for part in self._parts:
                if part.revive():
                    self._tell(f"  {part.name:<12} had ended and was started again (time {part.restarts})")
                    self._write_running()

    @contextmanager
    def running(self) -> Iterator["Stack"]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def part(self, name: str) -> Part:
        return next(part for part in self._parts if part.name == name)

    def manage(self, *arguments: str, timeout_seconds: float = SETUP_SECONDS) -> str:
        """Run a management command in the stack's environment; returns what it wrote to stdout."""
        setup_log = self._places.logs / "setup.log"
        with open(setup_log, "a") as errors:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                env=self._environment, cwd=parts.ROOT, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
            written = self._outcome(process, arguments[0], timeout_seconds)
        if process.returncode:
            raise StartFailed(f"manage.py {arguments[0]} failed: {setup_log.read_text()[-1500:]}")
        return written

    def _outcome(self, process: subprocess.Popen[str], name: str, timeout_seconds: float) -> str:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                return process.communicate(timeout=WATCH_SECONDS)[0]
            except subprocess.TimeoutExpired:
                if not self.cancelled.is_set() and time.monotonic() < deadline:
                    continue
                process.kill()
                process.communicate()
                if self.cancelled.is_set():
                    raise StartCancelled(name) from None
                raise StartFailed(f"manage.py {name} took longer than {timeout_seconds:.0f} s.") from None

    def _make_environment(self, own_servers: bool, settings: Mapping[str, str]) -> dict[str, str]:
        environment = {**os.environ, "BERTH_HOME": str(self.home), "PORTAL_URL": self.url, "PYTHONUNBUFFERED": "1"}
        environment["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        if own_servers:
            environment = {
                name: value for name, value in environment.items() if name not in ("DATABASE_URL", "REDIS_URL")
            }
        return {**environment, **settings}

    def _start_servers(self) -> None:
        self._places.logs.mkdir(parents=True, exist_ok=True)
        if not self._environment.get("DATABASE_URL"):
            self._bring_up(parts.postgres(self._places))
        if not self._environment.get("REDIS_URL"):
            self._bring_up(parts.valkey(self._places))

    def _set_up(self) -> dict[str, str]:
        """Migrate and seed; returns an enrolment token for each node that has no credential yet."""
        self._step("migrations", "migrate", "--no-input", "-v", "0")
        fresh = [f"--node={node.name}:{node.pool}" for node in self.nodes if not parts.is_enrolled(self.home, node)]
        answer = self._step("accounts", "seed_demo", "--password", self.password, *fresh)
        seeded = json.loads(answer.splitlines()[-1])
        self.accounts = seeded["accounts"]
        return seeded["tokens"]

    def _start_portal(self) -> None:
        portal = [
            parts.web(self._places, self._environment, self._port, self._answers),
            parts.worker(self._places, self._environment),
            parts.beat(self._places, self._environment),
        ]
        for part in portal:
            self._spawn(part)
        for part in portal:
            self._wait(part)

    def _start_nodes(self, tokens: dict[str, str]) -> None:
        since = time.time()
        for node in self.nodes:
            parts.make_machine(self.home, node)
        joining = [(node, tokens[node.name]) for node in self.nodes if node.name in tokens]
        with ThreadPoolExecutor() as side_by_side:
            list(side_by_side.map(lambda each: parts.enrol(self.home, each[0], self.url, each[1]), joining))
        for node in self.nodes:
            self._spawn(parts.agent(self._places, node, self.url))
        names = ",".join(node.name for node in self.nodes)
        if names:
            self._step("nodes ready", "nodes_ready", names, "--since", str(since), "--seconds", str(NODES_SECONDS))

    def _step(self, name: str, *arguments: str) -> str:
        began = time.monotonic()
        written = self.manage(*arguments)
        self._tell(f"  {name:<12} done   {time.monotonic() - began:5.1f} s")
        return written

    def _bring_up(self, part: Part) -> None:
        self._spawn(part)
        self._wait(part)

    def _spawn(self, part: Part) -> None:
        self._parts.append(part)
        part.spawn()
        self._write_running()

    def _wait(self, part: Part) -> None:
        seconds = part.wait_ready(self.cancelled)
        self._tell(f"  {part.name:<12} ready  {seconds:5.1f} s")

    def _answers(self, _part: Part) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _write_running(self) -> None:
        alive = {part.name: part.process.pid for part in self._parts if part.process is not None}
        processes: dict[str, list[float]] = {name: [pid, started_at(pid)] for name, pid in alive.items()}
        write_running(self.home, Running(os.getpid(), self.url, self.password, processes))
