"""Servers that outlived their supervisor, killed or cut off from power: ended before a new start."""

import contextlib
import logging
import signal
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

ORDERLY_SECONDS = 30
KILLED_SECONDS = 10


def end_leftover(pid_file: Path, mark: str, how: signal.Signals) -> None:
    """End the process that ``pid_file`` names, if it is still ours: its command line holds ``mark``.

    A number that now belongs to another program is left alone; so is a file that holds none.
    """
    process = _named_by(pid_file)
    if process is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        if not any(mark in word for word in process.cmdline()):
            return
        log.warning("ending process %d, left over from an earlier start", process.pid)
        process.send_signal(how)
        try:
            process.wait(ORDERLY_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(KILLED_SECONDS)


def _named_by(pid_file: Path) -> psutil.Process | None:
    try:
        return psutil.Process(int(pid_file.read_text().split()[0]))
    except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
        return None
