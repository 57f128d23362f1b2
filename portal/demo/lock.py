"""One stack per home: the lock, and what the running one tells about itself. Imports no Django."""

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import psutil

STOP_SECONDS = 10


class HomeInUse(RuntimeError):
    """Another stack runs on this home; the text says where."""


@dataclass
class Running:
    """What stands in ``stack.json`` while a stack runs; ``processes`` maps names to ``[pid, start time]``."""

    pid: int = 0
    url: str = ""
    password: str = ""
    processes: dict[str, list[float]] = field(default_factory=dict)


class HomeLock:
    """Held for as long as the stack runs; the kernel lets go of it however the process ends."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file: IO[str] | None = None

    def take(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        file = open(self._home / "stack.lock", "a+")  # noqa: SIM115  held open until release()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            other = read_running(self._home)
            place = f" at {other.url} (pid {other.pid})" if other else ""
            raise HomeInUse(f"Berth runs already on {self._home}{place}. Stop it first, or set BERTH_HOME.") from None
        self._file = file

    def release(self) -> None:
        (self._home / "stack.json").unlink(missing_ok=True)
        if self._file is not None:
            self._file.close()
            self._file = None


def write_running(home: Path, running: Running) -> None:
    scratch = home / f"stack.{os.getpid()}"
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(running), file)
    scratch.replace(home / "stack.json")


def read_running(home: Path) -> Running | None:
    """What the last stack on this home told, whether or not it still runs."""
    try:
        return Running(**json.loads((home / "stack.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def is_held(home: Path) -> bool:
    """Whether a stack runs on this home now."""
    try:
        file = open(home / "stack.lock")  # noqa: SIM115  closed two lines on
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def started_at(pid: int) -> float:
    """The start time that tells a process from a later one with the same pid; 0.0 when it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def stop_left_over(home: Path) -> list[str]:
    """Stop what a stack that was killed left running here, in the order of its stop; returns the names."""
    left = read_running(home)
    stopped = []
    for name, (pid, start) in reversed(list(left.processes.items()) if left else []):
        if started_at(int(pid)) != start:
            continue
        process = psutil.Process(int(pid))
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS)
        stopped.append(name)
    return stopped
