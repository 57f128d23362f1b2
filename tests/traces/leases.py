"""One labelled lease: its samples at 1 Hz, a table a rank, and the truth about it. The same seed gives the same."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.traces.causes import CAUSES
from tests.traces.rendering import blank_start, ramp, render, u

# model: memory MiB, SMs without MIG, SMs with MIG, memory slices, profiles name -> (SMs, memory MiB, memory slices)
GPUS: dict[str, tuple[int, int, int, int, dict[str, tuple[int, int, int]]]] = {
    "A100-80GB": (81920, 108, 98, 8, {
        "1g.10gb": (14, 9728, 1), "1g.20gb": (14, 19968, 2), "2g.20gb": (28, 19968, 2),
        "3g.40gb": (42, 40192, 4), "4g.40gb": (56, 40192, 4), "7g.80gb": (98, 80896, 8)}),
    "H100-80GB": (81559, 132, 132, 8, {
        "1g.10gb": (16, 9984, 1), "1g.20gb": (26, 20096, 2), "2g.20gb": (32, 20096, 2),
        "3g.40gb": (60, 40448, 4), "4g.40gb": (64, 40448, 4), "7g.80gb": (132, 81152, 8)}),
    "H200-141GB": (143771, 132, 132, 8, {
        "1g.18gb": (16, 16384, 1), "1g.35gb": (26, 33024, 2), "2g.35gb": (32, 33024, 2),
        "3g.71gb": (60, 71168, 4), "4g.71gb": (64, 71168, 4), "7g.141gb": (132, 143104, 8)}),
}  # fmt: skip
RENDERED = {
    "gr": "gr_active", "sm": "sm_active", "occ": "sm_occupancy", "tensor": "tensor_active", "dram": "dram_active",
    "fp64": "fp64_active", "fp32": "fp32_active", "fp16": "fp16_active", "rx": "pcie_rx_mib_s", "tx": "pcie_tx_mib_s",
    "nvl": "nvlink_mib_s", "disk": "disk_read_mib_s", "net": "net_rx_mib_s", "nettx": "net_tx_mib_s", "iow": "io_wait",
    "cpuw": "cpu_wait",
}  # fmt: skip
BOARD_ONLY = ("pcie_rx_mib_s", "pcie_tx_mib_s", "nvlink_mib_s")
Table = dict[str, np.ndarray]


@dataclass
class Lease:
    """``ranks``: name of the metric -> its values, a second each, NaN where nothing arrived."""

    ranks: list[Table]
    truth: dict[str, Any]


def lease(cause: str, index: int, seconds: int, seed: int, causes: Mapping[str, Callable] = CAUSES) -> Lease:
    rng = np.random.default_rng(zlib.crc32(f"{seed}/{cause}/{index}".encode()))
    spec = causes[cause](rng)
    gpu = str(rng.choice(list(GPUS)))
    loops, profiles = spec["ranks"], GPUS[gpu][4]
    want = spec.get("profile") or (
        "7g" if len(loops) > 1 or spec.get("mig") is False else str(rng.choice(["2g", "3g", "7g"]))
    )
    mig = want != "7g" or (spec.get("mig") is not False and len(loops) == 1 and rng.random() < 0.3)
    profile = next(name for name in profiles if name.startswith(want))
    spec["cpu_limit"] = spec.get("cpu_limit", int(rng.choice([8, 12, 16])))
    warm = min(spec.get("warm", int(u(rng, 20, 90))), seconds // 2)
    pcie_max = (4 if gpu.startswith("A100") else 5, 16)
    spec["pcie"] = spec.get("pcie", pcie_max)
    ranks = []
    for rank, phases in enumerate(loops):
        sub = np.random.default_rng(
            zlib.crc32(f"{seed}/{cause}/{index}/sync".encode()) if spec.get("sync") else rng.integers(1 << 60)
        )
        ranks.append(_samples(rng, render(sub, phases, seconds), spec, rank, warm))
        if mig:
            ranks[-1] |= {name: np.full(seconds, np.nan) for name in BOARD_ONLY}
    truth = {
        "lease": f"{cause}-{index:02d}", "cause": cause, "labels": spec["labels"], "info": spec.get("info", []),
        "must_not": spec.get("must_not", []), "also": spec.get("also", []), "gpu": gpu,
        "profile": profile if mig else "full", "mig": bool(mig),
        "mem_total_mib": profiles[profile][1] if mig else GPUS[gpu][0], "cpu_limit": spec["cpu_limit"],
        "ranks": len(loops), "workload": spec.get("workload", "batch"), "framework": spec.get("framework", "pytorch"),
        "source": "dcgm" if gpu.startswith("A100") else "gpm", "seconds": seconds, "pcie_max": list(pcie_max),
        "compute_mode": spec.get("compute_mode", 0), "seed": seed,
    }  # fmt: skip
    return Lease(ranks, truth | _size_truth(spec, truth, profile))


def _samples(rng: np.random.Generator, r: Table, spec: dict[str, Any], rank: int, warm: int) -> Table:
    """The draws stand in the order in which the first generator made them, so that old seeds keep their leases."""
    seconds = len(r["gr"])
    t = np.arange(seconds)
    blank_start(r, warm, rng, spec["cpu_limit"])
    level = spec["mem"][rank] if isinstance(spec["mem"], list) else spec["mem"]
    memory = ramp(seconds, warm * 0.7, level, spec.get("mem_rise", 15), rng, spec.get("mem_wobble", 0.002))
    if "leak" in spec:
        grown = np.clip((t - warm) / max(seconds - warm, 1), 0, 1) * spec["leak"]
        memory = np.clip(memory + grown * (memory > 0), 0, 0.985)
    procs = spec.get("procs", 1)
    procs = procs[rank] if isinstance(procs, list) else procs
    processes = np.where(memory > 0, max(procs, 1), 0) if procs else np.zeros(seconds, int)
    quiet = t > spec.get("idle_after", seconds)
    xid = np.full(seconds, np.nan)
    if "xid" in spec:
        at = int(seconds * u(rng, 0.4, 0.7))
        xid[at] = spec["xid"]
        if spec.get("dies"):
            quiet = quiet | (t > at)
            memory, processes = np.where(t > at, 0, memory), np.where(t > at, 0, processes)
    for i in range(spec.get("restarts", 0)):  # a second process that exits at once, again and again
        at = int(seconds * (0.2 + 0.2 * i))
        processes[at : at + 2] = 2
    for key in RENDERED:
        r[key] = np.where(quiet, 0, r[key])
    r["cpu"] = np.where(quiet, np.abs(rng.normal(0.02, 0.01, seconds)), r["cpu"])
    out = {name: r[key] for key, name in RENDERED.items()}
    out |= _board(rng, r, spec, t, warm) | _host(rng, r["cpu"], spec, t, warm)
    out |= {"mem_used_frac": memory, "n_processes": processes, "xid": xid}
    gone = rng.random(seconds) <= 0.003  # a few seconds never arrive
    return {name: np.where(gone, np.nan, values.astype(float)) for name, values in out.items()}


def _board(rng: np.random.Generator, r: Table, spec: dict[str, Any], t: np.ndarray, warm: int) -> Table:
    seconds = len(t)
    clock = np.clip(rng.normal(0.97, 0.01, seconds), 0, 1)
    reasons = np.where(r["gr"] < 0.01, 1, 0)
    load = 0.12 + 0.33 * r["sm"] + 0.45 * np.minimum(r["tensor"] / 0.6, 1) + 0.2 * r["dram"]
    power = np.clip(load + rng.normal(0, 0.01, seconds), 0.08, 1)
    reasons = np.where((power > 0.96) & (reasons == 0), 4, reasons)
    if "clock" in spec:
        on = (rng.random(seconds) < spec["reasons_share"]) & (t > warm)
        clock, reasons = np.where(on, spec["clock"] * clock, clock), np.where(on, spec["reasons"], reasons)
        power = np.where(t > warm, spec["power"] + rng.normal(0, 0.015, seconds), power)
    return {
        "power_frac": power, "sm_clock_frac": clock, "clock_event_reasons": reasons,
        "pcie_gen": np.full(seconds, spec["pcie"][0]), "pcie_width": np.full(seconds, spec["pcie"][1]),
        "compute_mode": np.full(seconds, spec.get("compute_mode", 0)),
    }  # fmt: skip


def _host(rng: np.random.Generator, cpu: np.ndarray, spec: dict[str, Any], t: np.ndarray, warm: int) -> Table:
    of_limit = cpu / spec["cpu_limit"]
    throttled = np.clip((of_limit - 0.97) * 6 + rng.normal(0, 0.02, len(t)), 0, 1) * (of_limit > 0.95)
    host = np.clip(0.1 + 0.25 * np.clip(t / (warm + 60), 0, 1) + rng.normal(0, 0.004, len(t)), 0, 1)
    return {"cpu_util_of_limit": np.clip(of_limit, 0, 1), "cpu_throttled_frac": throttled, "host_mem_frac": host}


def _size_truth(spec: dict[str, Any], truth: dict[str, Any], profile: str) -> dict[str, Any]:
    level = max(spec["mem"]) if isinstance(spec["mem"], list) else spec["mem"]
    demand = spec.get("demand", level) * truth["mem_total_mib"]
    loop = spec["ranks"][0]
    total = sum(phase[0] for phase in loop)
    busy = sum(phase[0] * phase[2]["gr"] for phase in loop) / total
    fill = max((phase[2]["sm"] / phase[2]["gr"] for phase in loop if phase[2]["gr"] > 0.2), default=0)
    dram = sum(phase[0] * phase[2]["dram"] for phase in loop) / total
    _, sms, _, _, profiles = GPUS[truth["gpu"]]
    right = right_profile(truth["gpu"], demand, busy, fill, dram, profiles[profile][0] if truth["mig"] else sms)
    return {"peak_demand_mib": round(demand), "right_profile": right if "sized" in spec else None}


def right_profile(gpu: str, demand_mib: float, busy: float, fill: float, dram: float, sms: int) -> str | None:
    """The smallest profile that holds the demand with 15 % and 600 MiB to spare and stretches the run by 15 % at
    most."""
    _, _, _, mem_slices, profiles = GPUS[gpu]
    for name, (p_sms, p_mem, p_slices) in sorted(profiles.items(), key=lambda item: (item[1][0], item[1][1])):
        bandwidth = (dram / max(busy, 1e-3)) / (0.8 * p_slices / mem_slices)
        stretch = (1 - busy) + busy * max(1.0, fill / (p_sms / sms), bandwidth)
        if demand_mib * 1.15 + 600 <= p_mem and stretch <= 1.15:
            return name
    return None
