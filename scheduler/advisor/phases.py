"""Which seconds of a run count, and where the run changes for good.

A process has a warm-up: imports, compilation, the model's way to the GPU. It ends 30 s after work has begun, and begins
anew when the memory was empty and fills again. What is left is cut where some metric moves to another level
and stays there.
"""

import numpy as np

from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Recording, blocks_of, mean_of, runs_of

# Each on a scale on which a tenth is little and a half is much.
LEVELS = {
    "gr_active": 1.0, "sm_active": 1.0, "tensor_active": 1.0, "dram_active": 1.0, "fp64_active": 1.0,
    "fp32_active": 1.0, "cpu_util_of_limit": 1.0, "io_wait": 1.0, "pcie_rx_mib_s": 1 / 8192,
}  # fmt: skip


def steady(recording: Recording) -> np.ndarray:
    """True for each second after a warm-up."""
    ranks = range(len(recording.ranks))
    activity = mean_of([recording.activity(rank) for rank in ranks])
    held = mean_of([recording.series("mem_used_frac", rank) for rank in ranks])
    out = np.ones(recording.seconds, dtype=bool)
    for start in [0, *_restarts(held)]:
        out[start : start + _warm_up_seconds(activity[start:])] = False
    return out


def _restarts(held: np.ndarray) -> list[int]:
    """Where memory that had been in use lies empty for 5 s and more."""
    empty = runs_of(held <= LIMITS["idle_held"]["memory_least"])
    return [
        start for start, end in empty if start > 0 and end - start >= 5 and np.nanmax(held[:start], initial=0) > 0.01
    ]


def _warm_up_seconds(activity: np.ndarray) -> int:
    limit = LIMITS["warm_up"]
    window = limit["window_seconds"]
    active = (activity > limit["active_least"]).astype(float)
    most = limit["seconds_most"]
    counts = np.convolve(active[: most + window], np.ones(window), mode="valid")
    begun = np.flatnonzero(counts >= window / 2)
    ends = int(begun[0]) + window + limit["then_seconds"] if len(begun) else most
    return int(min(max(ends, limit["seconds_least"]), most))


def phases(recording: Recording, counts: np.ndarray) -> list[tuple[int, int]]:
    """Half-open ranges of seconds. A block at either side of a change belongs to nobody."""
    size = LIMITS["phases"]["block_seconds"]
    levels = []
    for name, scale in LEVELS.items():
        series = [np.where(counts, recording.series(name, rank), np.nan) for rank in range(len(recording.ranks))]
        levels.append(blocks_of(mean_of(series), size) * scale)
        if len(series) > 1 and name in ("gr_active", "sm_active"):
            levels += [blocks_of(one, size) for one in series]
    table = np.stack(levels)
    cuts = _cuts(table, 0, table.shape[1])
    edges = [0, *cuts, table.shape[1]]
    out = []
    for first, last in zip(edges, edges[1:], strict=False):
        start = 0 if first == 0 else (first + 1) * size
        end = recording.seconds if last == table.shape[1] else (last - 1) * size
        out.append((start, end))
    return out


def _cuts(table: np.ndarray, first: int, last: int) -> list[int]:
    limit = LIMITS["phases"]
    least = limit["blocks_least"]
    reach = limit["blocks_compared"]
    best, where = 0.0, 0
    for at in range(first + least, last - least + 1):
        strength = _strength(table[:, max(first, at - reach) : at], table[:, at : min(last, at + reach)])
        if strength > best:
            best, where = strength, at
    if best < limit["t_least"]:
        return []
    return [*_cuts(table, first, where), where, *_cuts(table, where, last)]


def _strength(left: np.ndarray, right: np.ndarray) -> float:
    """Student's t of the metric that moved most clearly, among those that moved far."""
    n, means, variances = [], [], []
    for side in (left, right):
        known = np.isfinite(side)
        count = known.sum(1)
        mean = np.where(known, side, 0).sum(1) / np.maximum(count, 1)
        n.append(count)
        means.append(mean)
        variances.append((np.where(known, side - mean[:, None], 0) ** 2).sum(1))
    least = LIMITS["phases"]["blocks_least"]
    enough = (n[0] >= least) & (n[1] >= least)
    far = np.abs(means[0] - means[1])
    pooled = np.sqrt((variances[0] + variances[1]) / np.maximum(n[0] + n[1] - 2, 1))
    t = far / np.maximum(pooled, 0.02) * np.sqrt(n[0] * n[1] / np.maximum(n[0] + n[1], 1))
    return float(np.where(enough & (far >= LIMITS["phases"]["effect_least"]), t, 0).max(initial=0))
