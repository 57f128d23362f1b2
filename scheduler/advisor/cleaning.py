"""Values that cannot be believed become null: a series that stands still where it must tremble, and zeros of a board
that draws power. Some exporters send 0 while the tool beside them reads more."""

from dataclasses import replace

import numpy as np

from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Recording, Series, runs_of

ACTIVITY = (
    "gr_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active",
    "fp16_active",
)  # fmt: skip
TREMBLING = (*ACTIVITY, "cpu_util_of_limit", "io_wait", "pcie_rx_mib_s", "pcie_tx_mib_s", "nvlink_mib_s")
RATIOS = (*ACTIVITY, "mem_used_frac", "cpu_util_of_limit", "cpu_throttled_frac", "io_wait", "cpu_wait")


def cleaned(recording: Recording) -> Recording:
    limit = recording.lease.cpu_limit
    return replace(recording, ranks=tuple(_cleaned(rank, limit, recording.lease.mig) for rank in recording.ranks))


def _cleaned(rank: Series, cpu_limit: float | None, mig: bool) -> Series:
    out = {name: np.array(values, dtype=float) for name, values in rank.items()}
    for name in RATIOS:
        if name in out:
            out[name][(out[name] < 0) | (out[name] > 1)] = np.nan
    for name in TREMBLING:
        if name in out:
            out[name][_frozen(out[name])] = np.nan
    lying = _zeros_that_lie(out, cpu_limit, mig)
    for name in ACTIVITY:
        if name in out and name != "fp64_active":
            out[name][lying & (out[name] == 0)] = np.nan
    return out


def _frozen(values: np.ndarray) -> np.ndarray:
    """The same value to the last bit, second after second. Nothing and full are where a clipped series may stand."""
    same = np.zeros(len(values), dtype=bool)
    known = np.flatnonzero(np.isfinite(values))
    told = values[known]
    inner = (told > 0) & (told != 1) & (told >= LIMITS["suspect"]["frozen_steps_least"] * _resolution(told))
    for start, end in runs_of(np.concatenate(([False], (np.diff(told) == 0) & inner[1:]))):
        if end - start + 1 >= LIMITS["suspect"]["frozen_seconds"]:
            same[known[start - 1 : end]] = True
    return same


def _resolution(told: np.ndarray) -> float:
    """The step in which a series is told, 0 where that is fine. Few steps above 0 a series may well stand."""
    for step in (0.01, 0.001, 0.0001):
        if np.abs(told / step - np.round(told / step)).max(initial=0) < 1e-6:
            return step
    return 0.0


def _zeros_that_lie(rank: Series, cpu_limit: float | None, mig: bool) -> np.ndarray:
    """A minute and more in which all activity is 0 though the board draws power.

    On a slice the power may be the neighbours', so there the container must be at work as well. A GPU that holds
    nothing is idle, whatever its neighbours do.
    """
    limit = LIMITS["suspect"]
    seconds = len(next(iter(rank.values())))
    missing = np.full(seconds, np.nan)
    power = rank.get("power_frac", missing)
    suspect = power > limit["power_idle"] + limit["power_above_idle"]
    holds = (rank.get("mem_used_frac", missing) > 0.01) | (rank.get("n_processes", missing) > 0)
    if mig:
        cores = rank.get("cpu_util_of_limit", missing) * (cpu_limit or np.nan)
        suspect &= cores > limit["cores_least"]
    lying = np.zeros(seconds, dtype=bool)
    nothing = np.nan_to_num(rank.get("gr_active", rank.get("sm_active", missing)), nan=1.0) == 0
    for start, end in runs_of(nothing):
        if end - start >= limit["frozen_seconds"] and (suspect & holds)[start:end].mean() > 0.5:
            lying[start:end] = True
    return lying
