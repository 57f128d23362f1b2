"""A supervised process: started, probed until it is ready, started again with back-off, stopped. Imports no Django."""

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 30.0
CALM_SECONDS = 60.0  # running this long makes the back-off start over
POLL_SECONDS = 0.05


class StartCancelled(RuntimeError):
    """The start was given up because somebody asked for the stop."""


class StartFailed(RuntimeError):
    """A part did not become ready; the text ends with the tail of its log."""


@dataclass
class Part:
    """One process of a stack.

    ``start`` spawns it; ``ready`` looks once and is asked again until it says yes. ``how`` is the signal that stops it
    in good order, followed by KILL after ``stop_seconds``.
    """

    name: str
    start: Callable[[], subprocess.Popen]
    log_file: Path
    ready: Callable[["Part"], bool] = lambda _: True
    ready_seconds: float = 60
    how: signal.Signals = signal.SIGTERM
    stop_seconds: float = 20
    process: subprocess.Popen | None = None
    log_offset: int = 0
    restarts: int = 0
    _started: float = 0.0
    _asked: bool = False
    _next_start: float = 0.0
    _backoff: float = field(default=FIRST_BACKOFF_SECONDS)

    def spawn(self) -> None:
        self.log_offset = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._started, self._asked = time.monotonic(), False
        self.process = self.start()

    def wait_ready(self, cancelled: threading.Event) -> float:
        """Returns the seconds it took; raises StartFailed when the process ends or the deadline passes first."""
        deadline = self._started + self.ready_seconds
        while not self.ready(self):
            if cancelled.is_set():
                raise StartCancelled(self.name)
            if not self.alive:
                raise StartFailed(f"{self.name} ended at once. {self.tail()}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{self.name} was not ready within {self.ready_seconds:.0f} s. {self.tail()}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - self._started

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def revive(self) -> bool:
        """Start it again when it has died and its back-off is over; True when that happened now."""
        now = time.monotonic()
        if self.process is None or self.alive:
            return False
        if self._next_start == 0.0:
            if now - self._started > CALM_SECONDS:
                self._backoff = FIRST_BACKOFF_SECONDS
            log.warning(
                "%s ended with %s, starting it again in %.0f s", self.name, self.process.returncode, self._backoff
            )
            self._next_start = now + self._backoff
            self._backoff = min(self._backoff * 2, LONGEST_BACKOFF_SECONDS)
        if now < self._next_start:
            return False
        self._next_start = 0.0
        self.restarts += 1
        _kill_group(self.process)  # what it had started in its session is nobody's now
        self.spawn()
        return True

    def ask_to_stop(self) -> None:
        """Once: to some programs a second signal means to drop everything."""
        if self.process is not None and self.alive and not self._asked:
            self._asked = True
            self.process.send_signal(self.how)

    def stop(self) -> None:
        """Ask, wait, and KILL its whole group when it does not stop in time."""
        if self.process is None:
            return
        self.ask_to_stop()
        try:
            self.process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            log.warning("%s did not stop within %.0f s and is killed", self.name, self.stop_seconds)
            _kill_group(self.process)
            self.process.wait(self.stop_seconds)
        self.process = None

    def said(self, text: str) -> bool:
        """Whether the log holds ``text`` since the last start."""
        if not self.log_file.exists():
            return False
        with open(self.log_file, "rb") as file:
            file.seek(self.log_offset)
            return text.encode() in file.read()

    def tail(self) -> str:
        if not self.log_file.exists():
            return ""
        return f"Its log {self.log_file} ends:\n{self.log_file.read_text(errors='replace')[-1500:]}"


def spawn(arguments: list[str], environment: dict[str, str], folder: Path, log_file: Path) -> subprocess.Popen:
    """Start in a session of its own, so that Ctrl-C reaches the supervisor alone and the stop has an order."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with open(log_file, "ab") as output:
        return subprocess.Popen(
            arguments, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip


def _kill_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
