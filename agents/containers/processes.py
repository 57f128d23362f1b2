"""Reading /proc: who is alive, who descends from whom, what a process was given. A pid alone names nobody."""

import ctypes
import os
import signal
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when there is no such process or it is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def is_same(pid: int, ticks: int) -> bool:
    """Whether this pid is still the process that started at ``ticks``, alive."""
    return start_ticks(pid) == ticks


def children_by_parent() -> dict[int, list[int]]:
    """All living processes of this machine, by their parents: one look for any number of questions."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields is not None and fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(pid)
    return children


def descendants(root: int, children: dict[int, list[int]] | None = None) -> tuple[int, ...]:
    """All living processes below ``root``, itself left out; ``children`` is a look that was taken already."""
    children = children_by_parent() if children is None else children
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(below)
    return tuple(found)


def environment_of(pid: int) -> dict[str, str]:
    """The environment the process was started with; empty when it is gone."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def with_environment(name: str, value: str) -> tuple[int, ...]:
    """All living processes that were started with ``name=value``; the way to find what lost its parents."""
    return tuple(pid for pid in _pids() if environment_of(pid).get(name) == value and start_ticks(pid) is not None)


def send(pid: int, number: signal.Signals) -> None:
    """Signal one process; one that is gone already is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def send_group(pid: int, number: signal.Signals) -> None:
    """Signal the process group that ``pid`` leads; one that is gone already is no error."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def become_subreaper() -> None:
    """Orphans below this process come to it instead of init, so that none can slip away by forking twice."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on: [0] state, [1] parent, [19] start time."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
