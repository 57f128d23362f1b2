"""Harder leases, made of the plain ones: a run that changes, several causes at once, metrics that are missing or lie.

Each function draws one lease. Where a metric is gone without which nobody could tell, the cause may be named (``also``)
but need not be; everything that stays visible must still be found.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from tests.traces.borderline import BORDERLINE
from tests.traces.leases import Lease, lease

Draw = np.random.Generator
# Causes of one GPU that last as long as the run does, with what each cannot be told without.
STEADY = {
    "healthy_train": (), "input_cpu": ("cpu_util_of_limit", "gr_active"), "input_storage": ("io_wait", "gr_active"),
    "tensor_unused": ("tensor_active", "sm_active"), "fp64_accident": ("fp64_active",),
    "small_kernels": ("sm_active", "dram_active"), "host_bound": ("cpu_util_of_limit", "gr_active"),
    "transfer_bound": ("pcie_rx_mib_s", "gr_active"), "throttled": ("clock_event_reasons", "sm_clock_frac"),
}  # fmt: skip
BASES = ("healthy_train", "input_storage", "input_cpu", "tensor_unused", "fp64_accident")
COUNTERS = (
    "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active",
)  # fmt: skip
WHOLE_ONLY = {"transfer_bound", "throttled"}
NEEDLESS = ("sm_occupancy", "fp16_active", "host_mem_frac", "cpu_wait", "power_frac")
SECONDS = 1800


def joined(rng: Draw, seed: int) -> Lease:
    """The run changes: two programs one after the other, half an hour and some each their part."""
    first, second = (str(name) for name in rng.choice(list(STEADY), 2, replace=False))
    return _one_after_another(rng, seed, [(first, 900), (second, 1000)])


def joined_then_idle(rng: Draw, seed: int) -> Lease:
    """The work is done, and the kernel stays open."""
    return _one_after_another(rng, seed, [(str(rng.choice(list(STEADY))), 900), ("idle_held", 1500)])


def three_phases(rng: Draw, seed: int) -> Lease:
    """Healthy, ill for a quarter of an hour, healthy again."""
    ill = str(rng.choice([name for name in STEADY if name != "healthy_train"]))
    return _one_after_another(rng, seed, [("healthy_train", 700), (ill, 900), ("healthy_train", 700)])


def four_phases(rng: Draw, seed: int) -> Lease:
    """Three causes and a healthy part, in any order."""
    ill = [str(name) for name in rng.choice([name for name in STEADY if name != "healthy_train"], 3, replace=False)]
    parts = [(name, int(rng.integers(780, 1000))) for name in rng.permutation([*ill, "healthy_train"])]
    return _one_after_another(rng, seed, parts)


def compiles_again(rng: Draw, seed: int) -> Lease:
    """Healthy, started three times, each with minutes of compilation."""
    return _one_after_another(rng, seed, [("healthy_long_compile", int(rng.integers(600, 900))) for _ in range(3)])


def leaking_too(rng: Draw, seed: int) -> Lease:
    one = _draw(rng, str(rng.choice(BASES)), seed, SECONDS)
    leak = _draw(rng, "memory_leak", seed, SECONDS)
    one.ranks[0]["mem_used_frac"] = leak.ranks[0]["mem_used_frac"]
    return _with(one, "memory_leak")


def throttled_too(rng: Draw, seed: int) -> Lease:
    one = _draw(rng, str(rng.choice(BASES)), seed, SECONDS, mig=False)
    slow = _draw(rng, "throttled", seed, SECONDS)
    for name in ("sm_clock_frac", "clock_event_reasons", "power_frac"):
        one.ranks[0][name] = slow.ranks[0][name]
    return _with(one, "throttled")


def faulty_too(rng: Draw, seed: int) -> Lease:
    one = _draw(rng, str(rng.choice(BASES)), seed, SECONDS)
    one.ranks[0]["xid"][int(rng.integers(600, 1300))] = rng.choice([63, 74, 94])
    return _with(one, "hw_fault")


def crash_of_its_own(rng: Draw, seed: int) -> Lease:
    """XIDs that the program itself causes are no fault of the hardware."""
    one = _draw(rng, "healthy_train", seed, SECONDS)
    one.ranks[0]["xid"][int(rng.integers(600, 1300))] = rng.choice([13, 31, 43, 45, 68, 109])
    return one


def unused_beside(rng: Draw, seed: int) -> Lease:
    """The second GPU of the lease does nothing."""
    one = _draw(rng, str(rng.choice(BASES)), seed, SECONDS, mig=False)
    host = {name: one.ranks[0][name] for name in ("cpu_util_of_limit", "cpu_throttled_frac", "io_wait", "cpu_wait")}
    idle = {name: np.zeros(SECONDS) for name in one.ranks[0]} | host | {"power_frac": np.full(SECONDS, 0.12)}
    idle |= {name: one.ranks[0][name] for name in ("pcie_gen", "pcie_width", "disk_read_mib_s", "net_rx_mib_s")}
    idle["xid"] = np.full(SECONDS, np.nan)
    one.ranks.append(idle)
    one.truth["ranks"] = 2
    return _with(one, "unused_gpu")


def waits_and_fp32(rng: Draw, seed: int) -> Lease:
    """Waits for its input, and what runs in between runs on the slow pipes."""
    one = _draw(rng, str(rng.choice(["input_cpu", "input_storage"])), seed, SECONDS)
    rank = one.ranks[0]
    rank["tensor_active"] = rank["tensor_active"] * 0.005
    rank["fp32_active"] = rank["sm_active"] * rng.uniform(0.45, 0.7)
    return _with(one, "tensor_unused")


def waits_and_fp64(rng: Draw, seed: int) -> Lease:
    one = _draw(rng, str(rng.choice(["input_cpu", "input_storage"])), seed, SECONDS)
    rank = one.ranks[0]
    rank["tensor_active"], rank["fp64_active"] = rank["tensor_active"] * 0, rank["sm_active"] * rng.uniform(0.3, 0.6)
    return _with(one, "fp64_accident")


def late_and_hot(rng: Draw, seed: int) -> Lease:
    """The late rank is late because its board is slowed."""
    one = _draw(rng, "straggler", seed, SECONDS)
    slow = _draw(rng, "throttled", seed, SECONDS)
    late = int(np.argmax([np.nanmean(rank["sm_active"]) for rank in one.ranks]))
    for name in ("sm_clock_frac", "clock_event_reasons", "power_frac"):
        one.ranks[late][name] = slow.ranks[0][name]
    return _with(one, "throttled")


def node_away(rng: Draw, seed: int) -> Lease:
    """Nothing arrives for two to five minutes, of any metric."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    start = int(rng.integers(400, 1300))
    for rank in one.ranks:
        for name in rank:
            rank[name][start : start + int(rng.integers(120, 300))] = np.nan
    return one


def lossy(rng: Draw, seed: int) -> Lease:
    """One second in seven is lost, of each metric another."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    for rank in one.ranks:
        for name in rank:
            rank[name] = np.where(rng.random(SECONDS) < 1 / 7, np.nan, rank[name])
    return one


def trembling(rng: Draw, seed: int) -> Lease:
    """Readings that scatter by a fifth."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    for name in (*COUNTERS, "gr_active", "cpu_util_of_limit", "io_wait"):
        scattered = one.ranks[0][name] * (1 + rng.normal(0, 0.2, SECONDS))
        one.ranks[0][name] = np.clip(scattered, 0, 1)
    return one


def coarse(rng: Draw, seed: int) -> Lease:
    """Whole percents, as older interfaces tell them."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    for name in (*COUNTERS, "gr_active", "cpu_util_of_limit", "io_wait", "mem_used_frac", "cpu_throttled_frac"):
        one.ranks[0][name] = np.round(one.ranks[0][name], 2)
    return one


def nvml_only(rng: Draw, seed: int) -> Lease:
    """No profiling counters: how much of the GPU was covered, and by which pipes, is not known."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    for name in COUNTERS:
        one.ranks[0][name][:] = np.nan
    needs = {name for label in one.truth["labels"] for name in STEADY.get(label, COUNTERS)}
    return _unsure(one) if needs & set(COUNTERS) else one


def no_activity(rng: Draw, seed: int) -> Lease:
    """A slice of an older card without its exporter: memory and the host are all that is known. Nothing is idle."""
    causes = ["idle_held", "no_process", "cpu_fallback", *(name for name in STEADY if name not in WHOLE_ONLY)]
    one = _draw(rng, str(rng.choice(causes)), seed, SECONDS, mig=True)
    for name in (*COUNTERS, "gr_active"):
        one.ranks[0][name][:] = np.nan
    return _unsure(one)


def gang_starves(rng: Draw, seed: int) -> Lease:
    """Four ranks wait for their input alike: no matter of exchange."""
    return _gang(rng, str(rng.choice(["input_cpu", "input_storage"])), seed)


def gang_of_small(rng: Draw, seed: int) -> Lease:
    """Four ranks run kernels too small for them, and exchange nothing."""
    one = _gang(rng, "small_kernels", seed)
    for rank in one.ranks:
        rank["nvlink_mib_s"] = np.zeros(SECONDS)
    return one


def late_by_gaps(rng: Draw, seed: int) -> Lease:
    """One rank comes late because it waits for its data; the others spin."""
    one = _draw(rng, "straggler", seed, SECONDS)
    late = one.ranks[int(np.argmax([np.nanmean(rank["sm_active"]) for rank in one.ranks]))]
    share = rng.uniform(0.4, 0.65)
    for name in ("gr_active", "sm_active", "tensor_active", "dram_active"):
        late[name] = late[name] * share
    return one


def needless_gone(rng: Draw, seed: int) -> Lease:
    """What no rule needs is not there."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    for rank in one.ranks:
        for name in NEEDLESS:
            rank[name][:] = np.nan
    return one


def needed_gone(rng: Draw, seed: int) -> Lease:
    """What the cause cannot be told without is not there, nor its stand-in: silence, or the truth, but nothing else."""
    cause = str(rng.choice([name for name in STEADY if name != "healthy_train"]))
    one = _draw(rng, cause, seed, SECONDS)
    gone = str(rng.choice(STEADY[cause]))
    for rank in one.ranks:
        for name in (gone, "sm_active") if gone == "gr_active" else (gone,):
            rank[name][:] = np.nan
    return _unsure(one)


def some_gone(rng: Draw, seed: int) -> Lease:
    """Four metrics of all are not there, whatever the cause."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    names = sorted(set(one.ranks[0]) - {"xid"})
    for name in rng.choice(names, 4, replace=False):
        for rank in one.ranks:
            rank[str(name)][:] = np.nan
    return _unsure(one)


def stands_still(rng: Draw, seed: int) -> Lease:
    """The exporter of a healthy run repeats its last value for ever."""
    one = _draw(rng, "healthy_train", seed, SECONDS)
    start = int(rng.integers(60, 300))
    for name in rng.choice(["gr_active", "sm_active", "tensor_active", "dram_active", "cpu_util_of_limit"], 2, False):
        values = one.ranks[0][str(name)]
        values[start:] = float(rng.uniform(0.05, 0.6))
    return one


def false_zeros(rng: Draw, seed: int) -> Lease:
    """The exporter of a healthy run sends 0 for all activity; memory, power and CPU say otherwise."""
    one = _draw(rng, str(rng.choice(["healthy_train", "healthy_llm_decode"])), seed, SECONDS)
    start = int(rng.integers(0, 900))
    for name in (*COUNTERS, "gr_active"):
        one.ranks[0][name][start:] = 0
    return one


def nonsense(rng: Draw, seed: int) -> Lease:
    """Readings that cannot be, some of the time: the largest number of the type, or below zero."""
    one = _draw(rng, str(rng.choice(list(STEADY))), seed, SECONDS)
    for name in ("gr_active", "sm_active", "mem_used_frac", "cpu_util_of_limit", "dram_active"):
        bad = rng.random(SECONDS) < 0.05
        one.ranks[0][name] = np.where(bad, rng.choice([-1.0, 655.35, 1e19]), one.ranks[0][name])
    return one


def _borderline(name: str) -> Callable[[Draw, int], Lease]:
    return lambda rng, seed: lease(name, int(rng.integers(1 << 30)), SECONDS, seed, BORDERLINE)


HARDER: dict[str, Callable[[Draw, int], Lease]] = {
    one.__name__: one
    for one in (
        joined, joined_then_idle, three_phases, four_phases, compiles_again, lossy, trembling, coarse, nvml_only,
        no_activity, gang_starves, gang_of_small, late_by_gaps, leaking_too, throttled_too, faulty_too,
        crash_of_its_own, unused_beside, waits_and_fp32, waits_and_fp64, late_and_hot, node_away, needless_gone,
        needed_gone, some_gone, stands_still, false_zeros, nonsense,
    )
} | {name: _borderline(name) for name in BORDERLINE}  # fmt: skip


def harder(seed: int, per_kind: int) -> Iterator[Lease]:
    """The same seed gives the same leases; no kind depends on another's draws."""
    for kind, make in HARDER.items():
        for index in range(per_kind):
            rng = np.random.default_rng([seed, zlib.crc32(kind.encode()), index])
            made = make(rng, seed)
            made.truth |= {"lease": f"{kind}-{index:02d} ({made.truth['cause']})", "cause": kind}
            yield made


def _draw(rng: Draw, cause: str, seed: int, seconds: int, mig: bool | None = None) -> Lease:
    while True:
        one = lease(cause, int(rng.integers(1 << 30)), seconds, seed)
        if mig is None or one.truth["mig"] == mig:
            return one


def _gang(rng: Draw, cause: str, seed: int) -> Lease:
    """Ranks of the same program, each with its own draws of the second; the container is one."""
    one = _draw(rng, cause, seed, SECONDS, mig=False)
    first = one.ranks[0]
    ratios = ("gr_active", "sm_active", "tensor_active", "dram_active")
    for _ in range(3):
        own = {name: np.clip(first[name] * (1 + rng.normal(0, 0.03, SECONDS)), 0, 1) for name in ratios}
        one.ranks.append(first | own)
    one.truth["ranks"] = 4
    return one


def _with(one: Lease, label: str) -> Lease:
    one.truth["labels"] = sorted({*one.truth["labels"], label})
    one.truth["must_not"] = [name for name in one.truth["must_not"] if name != label]
    return one


def _unsure(one: Lease) -> Lease:
    one.truth["also"] = [*one.truth["also"], *one.truth["labels"]]
    one.truth["labels"] = []
    return one


def _one_after_another(rng: Draw, seed: int, parts: list[tuple[str, int]]) -> Lease:
    """All on the same kind of place: a slice has no link and no clock of its own to judge."""
    on_slice = not WHOLE_ONLY & {cause for cause, _ in parts} and bool(rng.random() < 0.5)
    return reduce(_after, [_draw(rng, cause, seed, seconds, on_slice) for cause, seconds in parts])


def _after(first: Lease, second: Lease) -> Lease:
    """One lease in two parts. Cores stay what they are, so their share of the limit does not; what is at the limit of
    one part sets the limit of both."""
    limits = first.truth["cpu_limit"], second.truth["cpu_limit"]
    limit = limits[1] if second.truth["cause"] == "input_cpu" else limits[0]
    for one in (first, second):
        for rank in one.ranks:
            rank["cpu_util_of_limit"] = np.clip(rank["cpu_util_of_limit"] * one.truth["cpu_limit"] / limit, 0, 1)
    ranks = [{name: np.concatenate([first.ranks[0][name], second.ranks[0][name]]) for name in first.ranks[0]}]
    truth: dict[str, Any] = first.truth | {
        "cause": f"{first.truth['cause']} then {second.truth['cause']}", "cpu_limit": limit,
        "labels": sorted({*first.truth["labels"], *second.truth["labels"]}),
        "also": sorted({*first.truth["also"]} & {*second.truth["also"]}),
        "must_not": sorted({*first.truth["must_not"]} & {*second.truth["must_not"]}),
        "profile": first.truth["profile"],
        "seconds": first.truth["seconds"] + second.truth["seconds"], "right_profile": None,
    }  # fmt: skip
    return Lease(ranks, truth)
