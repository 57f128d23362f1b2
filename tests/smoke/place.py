"""Where the walk takes place: a Berth that runs already, or one of its own."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.drivers.contract import Instance
from agents.drivers.opening import open_driver
from portal.demo.lock import is_held, read_running
from portal.demo.names import RESEARCHER_EMAIL
from portal.demo.ports import is_free
from portal.demo.supervisor import Stack
from tests.smoke.report import tell

HOME = Path(__file__).resolve().parents[2] / ".berth"
FIRST_OWN_PORT, LAST_OWN_PORT = 8200, 8299


@dataclass(frozen=True)
class Place:
    """``home`` holds the simulated machines, to be read as another driver client; None when they are out of reach."""

    url: str
    email: str
    password: str
    home: Path | None

    def instances(self, node: str) -> set[Instance] | None:
        """What the node's driver shows, read beside the agent; None when the machine is out of reach."""
        machine = self._machine(node)
        if machine is None:
            return None
        driver = open_driver(machine)
        try:
            return set(driver.instances())
        finally:
            driver.close()

    def processes_on(self, node: str, gpu_uuid: str) -> tuple[int, ...] | None:
        """The processes that the driver sees on a whole GPU; None when the machine is out of reach."""
        machine = self._machine(node)
        if machine is None:
            return None
        driver = open_driver(machine)
        try:
            return driver.use((), (gpu_uuid,))[gpu_uuid].pids
        finally:
            driver.close()

    def _machine(self, node: str) -> Path | None:
        machine = self.home / "nodes" / node / "machine.json" if self.home else None
        return machine if machine is not None and machine.exists() else None


@contextmanager
def a_place() -> Iterator[Place]:
    """BERTH_URL (with BERTH_EMAIL and BERTH_PASSWORD), else the demo that runs here, else a stack of our own."""
    if os.environ.get("BERTH_URL"):
        email = os.environ.get("BERTH_EMAIL") or RESEARCHER_EMAIL
        yield Place(os.environ["BERTH_URL"], email, os.environ.get("BERTH_PASSWORD") or "berth-demo", None)
        return
    home = Path(os.environ.get("BERTH_HOME") or HOME)
    running = read_running(home) if is_held(home) else None
    if running is not None:
        tell(f"smoke on the Berth that runs at {running.url}")
        yield Place(running.url, RESEARCHER_EMAIL, running.password, home)
        return
    with tempfile.TemporaryDirectory(prefix="berth-smoke-") as folder:
        Path(folder).chmod(0o755)
        with own_stack(Path(folder) / "home") as place:
            yield place


@contextmanager
def own_stack(home: Path) -> Iterator[Place]:
    """A whole Berth with data and a port of its own, stopped at the end."""
    port = next(port for port in range(FIRST_OWN_PORT, LAST_OWN_PORT + 1) if is_free(port))
    tell(f"smoke on a Berth of its own on port {port}")
    with Stack(home, port, own_servers=True, calendar=False, tell=tell).running() as stack:
        yield Place(stack.url, RESEARCHER_EMAIL, stack.password, home)
