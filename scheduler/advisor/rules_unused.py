"""Broken or not used: nobody came, memory held by nothing that runs, a GPU left out, the program on the CPU."""

import numpy as np

from scheduler.advisor.findings import Seen, Test, at_least, below, percent, rounded, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Recording, blocks_of, runs_of
from scheduler.advisor.view import ACTIVITY, View

BLOCK_SECONDS = 10


def no_process(recording: Recording) -> list[Seen]:
    """Nothing has touched any GPU of the lease, and nothing prepares to."""
    return _untouched(recording, LIMITS["no_process"], works=False)


def cpu_fallback(recording: Recording) -> list[Seen]:
    """The container works, and the GPU has not been touched."""
    return _untouched(recording, LIMITS["cpu_fallback"], works=True)


def _untouched(recording: Recording, limit: dict, works: bool) -> list[Seen]:
    activity, memory, cores = _blocks(recording)
    processes = _worst(recording, "n_processes")
    quiet = (activity <= 0) & (memory < limit["memory_most"]) & ~(processes > 0)
    found = []
    for start, end in _stretches(quiet, np.isfinite(activity) & np.isfinite(memory), limit["seconds_least"]):
        used = cores[start:end]
        known = used[np.isfinite(used)]
        if len(known) * 2 < len(used):
            continue
        middle = float(np.median(known))
        tests: list[Test] = [below("mem_used_frac", float(np.nanmax(memory[start:end])), limit["memory_most"])]
        if works:
            tests.append(at_least("cpu_cores", middle, limit["cores_least"]))
        else:
            tests.append(below("cpu_cores", middle, limit["cores_most"]))
        one = seen(tests, {"minutes": (end - start) * BLOCK_SECONDS // 60, "cores": rounded(middle, 1)})
        found.append(_placed(one, start, end, recording) if one else None)
    return [one for one in found if one]


def idle_held(recording: Recording) -> list[Seen]:
    """Memory or a process is held and nothing runs, here or on the CPU. A service waits for requests by right."""
    if recording.lease.workload == "service":
        return []
    limit = LIMITS["idle_held"]
    activity, memory, cores = _blocks(recording)
    held = (memory > limit["memory_least"]) | (_worst(recording, "n_processes") > 0)
    quiet = (activity < limit["activity_most"]) & held & (cores < limit["cores_most"])
    found = []
    known = np.isfinite(activity) & np.isfinite(memory) & np.isfinite(cores)
    for start, end in _stretches(quiet, known, limit["seconds_least"]):
        level = float(np.nanmean(memory[start:end]))
        tests = [
            below("gr_active", float(np.nanmean(activity[start:end])), limit["activity_most"]),
            below("cpu_cores", float(np.nanmean(cores[start:end])), limit["cores_most"]),
        ]
        one = seen(tests, {"minutes": (end - start) * BLOCK_SECONDS // 60, "memory_percent": percent(level)})
        found.append(_placed(one, start, end, recording) if one else None)
    return [one for one in found if one]


def _blocks(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Activity and memory of the GPU that shows most, and the cores in use."""
    ranks = range(len(recording.ranks))
    limit = recording.lease.cpu_limit or np.nan
    activity = np.stack([blocks_of(recording.activity(rank), BLOCK_SECONDS) for rank in ranks]).max(0)
    return activity, _worst(recording, "mem_used_frac"), blocks_of(
        recording.series("cpu_util_of_limit", 0) * limit, BLOCK_SECONDS
    )  # fmt: skip


def _worst(recording: Recording, name: str) -> np.ndarray:
    ranks = range(len(recording.ranks))
    return np.stack([blocks_of(recording.series(name, rank), BLOCK_SECONDS) for rank in ranks]).max(0)


def _stretches(quiet: np.ndarray, known: np.ndarray, seconds_least: int) -> list[tuple[int, int]]:
    """Ranges of blocks that are quiet as far as known, with at least four fifths known and both ends quiet."""
    out = []
    for start, end in runs_of(quiet | ~known):
        inner = np.flatnonzero(quiet[start:end])
        if not len(inner):
            continue
        first, last = start + int(inner[0]), start + int(inner[-1]) + 1
        share = known[first:last].mean()
        if (last - first) * BLOCK_SECONDS >= seconds_least and share >= LIMITS["gate"]["coverage_least"]:
            out.append((first, last))
    return out


def _placed(one: Seen, start: int, end: int, recording: Recording) -> Seen:
    last = min(end * BLOCK_SECONDS, recording.seconds)
    if recording.seconds - last < BLOCK_SECONDS:
        last = recording.seconds
    return Seen(one.tests, one.params, ((start * BLOCK_SECONDS, last),))


def unused_gpu(view: View) -> Seen | None:
    """Judged by the mean: contexts and monitors blip."""
    limit = LIMITS["unused_gpu"]
    ranks = view.all_ranks
    if len(ranks) < 2 or not view.knows_of_each(ACTIVITY) or not view.knows_of_each("mem_used_frac"):
        return None
    busy = [view.mean(ACTIVITY, rank) for rank in ranks]
    held = [view.mean("mem_used_frac", rank) for rank in ranks]
    idle = [r for r in ranks if busy[r] < limit["activity_most"] and held[r] < limit["memory_most"]]
    if not idle:
        return None
    tests = [
        below(ACTIVITY, max(busy[rank] for rank in idle), limit["activity_most"]),
        below("mem_used_frac", max(held[rank] for rank in idle), limit["memory_most"]),
        at_least(ACTIVITY, max(busy), limit["other_activity_least"]),
    ]
    return seen(tests, {"unused": len(idle), "gpus": len(ranks)}, rank=idle[0])
