"""The parent of one workload, in a process of its own: ``python -m agents.containers.keeper FOLDER READY_FD``.

It outlives the agent, so that a restart of the agent costs the workload nothing. It starts the command in its own
session, pumps its output into capped files, writes the exit code to disk and, as a subreaper, leaves no descendant
behind. TERM to the keeper ends the workload: TERM to its group, KILL to everything after the grace in ``stop.json``.
At the time in ``fence.json`` it does the same by itself: no workload outlives its window because the agent is gone.
"""

import contextlib
import ctypes
import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from agents.clock import seconds_since_boot
from agents.containers.fence import Fence, read_fence
from agents.containers.limits import apply_limits
from agents.containers.logfiles import LogWriter
from agents.containers.processes import become_subreaper, descendants, send, send_group, start_ticks
from agents.diskfiles import write_atomically

_CHUNK = 1 << 16
_SWEEP_SECONDS = 10.0
# A machine that slept wakes up late; its fence is looked at so often.
_FENCE_SECONDS = 5.0
_PR_SET_NO_NEW_PRIVS = 38


class Keeper:
    """Owns the child from its first breath to the file that holds its exit code."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spec = json.loads((folder / "spec.json").read_bytes())
        self._kill_at: float | None = None
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the command; raises OSError when it cannot be started."""
        become_subreaper()
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        libc = ctypes.CDLL(None)
        limits = functools.partial(
            apply_limits, self._spec["lease_id"], self._spec["cpus"], self._spec["memory_mib"])

        def prepare() -> None:
            signal.set_wakeup_fd(-1)
            libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            limits()

        child = subprocess.Popen(
            self._spec["command"], env=self._spec["environment"], cwd=self._folder / "home", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=prepare)
        facts = {"keeper_pid": os.getpid(), "keeper_ticks": start_ticks(os.getpid()),
                 "pid": child.pid, "ticks": start_ticks(child.pid)}
        write_atomically(self._folder / "child.json", json.dumps(facts).encode())
        return child

    def keep(self, child: subprocess.Popen[bytes]) -> None:
        """Pump and watch until the child has ended; then clear what it left and write its exit code."""
        writer = LogWriter(self._folder / "log")
        assert child.stdout is not None
        output = child.stdout.fileno()
        watched = [output, self._wake_read]
        while child.poll() is None:
            fence = read_fence(self._folder)  # written anew whenever the window changes
            self._mind_fence(fence, child)
            readable = select.select(watched, [], [], self._patience(fence))[0]
            if self._wake_read in readable:
                self._heed(child)
            if output in readable and not _pump(output, writer):
                watched.remove(output)
            _reap_adopted(child.pid)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                _kill_all(child.pid)
        _clear_descendants()
        while output in watched and select.select([output], [], [], 0)[0] and _pump(output, writer):
            continue
        writer.close()
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        write_atomically(self._folder / "exit.json", json.dumps({"exit_code": code, "at": time.time()}).encode())

    def _patience(self, fence: Fence | None) -> float:
        if self._kill_at is None:
            left = float("inf") if fence is None else fence.term_at - seconds_since_boot()
            return max(0.0, min(_FENCE_SECONDS, left))
        return max(0.0, min(0.2, self._kill_at - time.monotonic()))

    def _mind_fence(self, fence: Fence | None, child: subprocess.Popen[bytes]) -> None:
        if self._kill_at is None and fence is not None and fence.term_at <= seconds_since_boot():
            self._kill_at = time.monotonic() + max(0.0, fence.kill_at - seconds_since_boot())
            send_group(child.pid, signal.SIGTERM)

    def _heed(self, child: subprocess.Popen[bytes]) -> None:
        signals = os.read(self._wake_read, 4096)
        if signal.SIGTERM not in signals:
            return
        grace_seconds = json.loads((self._folder / "stop.json").read_bytes())["grace_seconds"]
        first = self._kill_at is None
        kill_at = time.monotonic() + grace_seconds
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        if first and grace_seconds > 0:
            send_group(child.pid, signal.SIGTERM)


def _pump(output: int, writer: LogWriter) -> bool:
    """Move some output to disk; whether there may be more. On a full disk the output is lost, the workload is not."""
    data = os.read(output, _CHUNK)
    with contextlib.suppress(OSError):
        writer.write(data)
    return bool(data)


def _kill_all(pid: int) -> None:
    send_group(pid, signal.SIGKILL)
    for below in descendants(os.getpid()):
        send(below, signal.SIGKILL)


def _reap_adopted(child_pid: int) -> None:
    """Collect ended orphans of the workload; the child itself is left to its own ``poll``."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == child_pid:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return


def _clear_descendants() -> None:
    """Kill what the workload left running. What does not die (a process stuck in the kernel) is left to the agent,
    which reads back from the driver whether the device is still held."""
    give_up_at = time.monotonic() + _SWEEP_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < give_up_at:
        for pid in left:
            send(pid, signal.SIGKILL)
        select.select([], [], [], 0.02)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def main() -> int:
    folder, ready = Path(sys.argv[1]), int(sys.argv[2])
    keeper = Keeper(folder)
    try:
        child = keeper.launch()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.write(ready, f"error {error}".encode()[:4096])
        return 1
    with contextlib.suppress(BrokenPipeError):  # the agent died meanwhile; its next one finds the workload on disk
        os.write(ready, b"ready")
    os.close(ready)
    keeper.keep(child)
    return 0


if __name__ == "__main__":
    sys.exit(main())
