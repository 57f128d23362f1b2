"""One whole Berth for the tests of this folder, with data and a port of its own."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from portal.demo.names import RESEARCHER_EMAIL
from portal.demo.ports import is_free
from portal.demo.supervisor import Stack
from tests.smoke.place import FIRST_OWN_PORT, LAST_OWN_PORT, Place


def free_port() -> int:
    return next(port for port in range(FIRST_OWN_PORT, LAST_OWN_PORT + 1) if is_free(port))


def left_over(home: Path) -> list[str]:
    """Every process that was started for this home, workloads included."""
    found = []
    for process in psutil.process_iter():
        try:
            told = " ".join([*process.cmdline(), process.environ().get("BERTH_HOME", "")])
        except psutil.Error:  # gone meanwhile, or not ours to read: then not ours at all
            continue
        if str(home) in told and process.pid != os.getpid():
            found.append(told)
    return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory) -> Iterator[Stack]:
    """Started once, watched as the demo watches it, stopped at the end."""
    folder = Path(tmp_path_factory.mktemp("stack"))
    stack = Stack(folder / "home", free_port(), own_servers=True, calendar=False)
    with stack.running():
        watcher = threading.Thread(target=stack.watch)
        watcher.start()
        yield stack
        stack.cancelled.set()
        watcher.join()
    assert left_over(stack.home) == []


@pytest.fixture
def place(stack) -> Place:
    return Place(stack.url, RESEARCHER_EMAIL, stack.password, stack.home)
