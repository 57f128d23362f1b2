"""The GPU is good but waits: for the CPU, for storage, for copies, for one thread, for its peers, for nobody."""

import numpy as np

from scheduler.advisor.findings import Seen, Test, at_least, below, percent, rounded, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Recording, blocks_of, runs_of
from scheduler.advisor.view import View

# MiB/s of one lane and direction by PCIe generation.
LANE_MIB_S = {1: 238, 2: 477, 3: 939, 4: 1878, 5: 3756, 6: 7512}


def _waits(view: View, limit: dict) -> list[Test]:
    """Idle gaps between kernels that cover the GPU; without SM activity the second half is not known."""
    tests = [below("gr_active", view.busy, limit["busy_most"])]
    if view.knows("sm_active"):
        tests.append(at_least("fill", view.fill, limit["fill_least"]))
    return tests


def _waited_percent(view: View) -> int:
    return percent(1 - view.busy)


def input_cpu(view: View) -> Seen | None:
    limit = LIMITS["input_cpu"]
    full = view.mean("cpu_util_of_limit") if view.knows("cpu_util_of_limit") else float("nan")
    throttled = view.mean("cpu_throttled_frac") if view.knows("cpu_throttled_frac") else float("nan")
    by_quota = at_least("cpu_throttled_frac", throttled, limit["throttled_least"])
    by_use = at_least("cpu_util_of_limit", full, limit["cpu_least"])
    tests = [*_waits(view, limit), by_use if by_use.holds or not by_quota.holds else by_quota]
    unsure = not view.knows("io_wait", "sm_active")
    if view.knows("io_wait"):
        tests.append(below("io_wait", view.mean("io_wait"), limit["io_wait_most"]))
    first = ("cpu_rebook",) if by_quota.holds else ()
    params = {"percent": _waited_percent(view), "cores": int(view.lease.cpu_limit or 0)}
    return seen(tests, params, unsure=unsure, steps_first=first)


def input_storage(view: View) -> Seen | None:
    limit = LIMITS["input_storage"]
    tests = [*_waits(view, limit), below("cpu_util_of_limit", view.mean("cpu_util_of_limit"), limit["cpu_most"])]
    disk, net = view.values("disk_read_mib_s"), view.values("net_rx_mib_s")
    read = np.where(np.isfinite(disk), disk, 0) + np.where(np.isfinite(net), net, 0)
    read[~np.isfinite(disk) & ~np.isfinite(net)] = np.nan
    rate = float(np.nanmean(read)) if np.isfinite(read).any() else 0.0
    if view.knows("io_wait"):
        tests.append(at_least("io_wait", view.mean("io_wait"), limit["io_wait_least"]))
    else:
        blocks = blocks_of(read, 10)
        blocks = blocks[np.isfinite(blocks)]
        uneven = float(blocks.std() / rate) if len(blocks) and rate > 0 else float("nan")
        tests.append(at_least("read_mib_s", rate, limit["flat_rate_least"]))
        tests.append(below("read_spread", uneven, limit["flat_spread_most"]))
    remote = view.mean("net_rx_mib_s") > limit["remote_share_least"] * rate if rate > 0 else False
    params = {"rate": rounded(rate), "percent": _waited_percent(view), "where": "remote" if remote else "local"}
    return seen(tests, params, unsure=not view.knows("io_wait", "sm_active"))


def transfer_bound(view: View) -> Seen | None:
    limit = LIMITS["transfer_bound"]
    link = link_mib_s(view)
    least = min(limit["rate_least"], limit["link_share_least"] * link) if link else limit["rate_least"]
    rate = view.mean("pcie_rx_mib_s") + view.mean("pcie_tx_mib_s")
    tests = [below("gr_active", view.busy, limit["busy_most"]), at_least("pcie_mib_s", rate, least)]
    return seen(tests, {"rate": rounded(rate / 1024, 1), "percent": _waited_percent(view)})


def link_mib_s(view: View) -> float | None:
    """One direction of the link as it is now; the lowest reading would be a sleeping link's."""
    gen, width = view.values("pcie_gen"), view.values("pcie_width")
    if not np.isfinite(gen).any() or not np.isfinite(width).any():
        return None
    return float(LANE_MIB_S.get(int(np.nanmax(gen)), 0) * np.nanmax(width)) or None


def host_bound(view: View) -> Seen | None:
    """One thread flat out between short kernels. Where PCIe is not measured, on a slice, a copy cannot be excluded."""
    limit = LIMITS["host_bound"]
    sees_copies = view.knows("pcie_rx_mib_s")
    if view.lease.workload == "service" or not (sees_copies or view.lease.mig):
        return None
    smooth = blocks_of(view.values("cpu_util_of_limit"), 10) * (view.lease.cpu_limit or np.nan)
    smooth = smooth[np.isfinite(smooth)]
    low, high = np.quantile(smooth, (0.1, 0.9)) if len(smooth) else (np.nan, np.nan)
    tests = [
        below("gr_active", view.busy, limit["busy_most"]),
        at_least("gr_active", view.busy, limit["busy_least"]),
        at_least("cpu_cores", float(low), limit["cores_least"]),
        below("cpu_cores", float(high), limit["cores_most"]),
        below("cpu_util_of_limit", view.mean("cpu_util_of_limit"), limit["cpu_most"]),
        below("io_wait", view.mean("io_wait"), limit["io_wait_most"]),
        below("still_share", still_share(view), limit["still_most"]),
    ]
    if view.knows("cpu_throttled_frac"):
        tests.append(below("cpu_throttled_frac", view.mean("cpu_throttled_frac"), limit["throttled_most"]))
    if sees_copies:
        rate = view.mean("pcie_rx_mib_s")
        tests.append(below("pcie_rx_mib_s", rate, limit["rate_most"]))
    return seen(tests, {"percent": _waited_percent(view), "cores": rounded(view.cores, 1)})


def still_share(view: View) -> float:
    """The share of time in stretches in which nothing runs at all: pauses of a person or a program, not of a thread."""
    blocks = blocks_of(view.values("gr_active"), 5)
    blocks = blocks[np.isfinite(blocks)]
    return float((blocks < 0.01).mean()) if len(blocks) else float("nan")


def low_duty_service(view: View) -> Seen | None:
    limit = LIMITS["low_duty_service"]
    if view.lease.workload != "service":
        return None
    activity = view.values("gr_active")
    high = float(np.nanquantile(activity, 0.99))
    tests = [below("gr_active", view.busy, limit["busy_most"]), at_least("gr_active_p99", high, limit["burst_least"])]
    return seen(tests, {"percent": percent(view.busy)})


def periodic_stalls(recording: Recording, counts: np.ndarray) -> list[Seen]:
    """Pauses at near-equal distance, with a write or one thread at work in them."""
    view = View(recording, counts, 0, recording.seconds)
    if not view.knows("gr_active"):
        return []
    stalls = _stalls(view)
    chains = _even_chains(stalls)
    if not chains:
        return []
    chain = max(chains, key=len)
    return [one] if (one := _told(view, chain)) else []


def _stalls(view: View) -> list[tuple[int, int]]:
    limit = LIMITS["periodic_stalls"]
    activity = view.values("gr_active")
    window = limit["window_seconds"]
    known = np.isfinite(activity)
    kernel = np.ones(window)
    total = np.convolve(np.where(known, activity, 0), kernel, "same")
    smooth = total / np.maximum(np.convolve(known.astype(float), kernel, "same"), 1)
    high = float(np.quantile(smooth[known], 0.9))
    low = (smooth < limit["depth_most"] * max(high, limit["high_least"])) & view.counts[view.start : view.end]
    return [run for run in runs_of(low) if run[1] - run[0] >= limit["seconds_least"] // 2]


def _even_chains(stalls: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Consecutive stalls whose distances differ little from their mean, as long as they go."""
    limit = LIMITS["periodic_stalls"]
    chains, first = [], 0
    while first < len(stalls):
        last = first + 1
        while last < len(stalls) and _uneven(stalls[first : last + 1]) < limit["uneven_most"]:
            last += 1
        if last - first >= limit["stalls_least"]:
            chains.append(stalls[first:last])
        first = max(last - 1, first + 1)
    return chains


def _uneven(stalls: list[tuple[int, int]]) -> float:
    starts = np.array([start for start, _ in stalls], dtype=float)
    gaps = np.diff(starts)
    return float(gaps.std() / gaps.mean())


def _told(view: View, chain: list[tuple[int, int]]) -> Seen | None:
    limit = LIMITS["periodic_stalls"]
    start, end = chain[0][0], chain[-1][1]
    inside = np.zeros(view.end, dtype=bool)
    for first, last in chain:
        inside[first:last] = True
    share = float(inside[start:end].mean())
    busy = view.values("gr_active")
    between = float(np.nanmean(busy[start:end][~inside[start:end]]))
    writes = float(
        np.nansum([_in(view, name, inside) for name in ("net_tx_mib_s", "disk_read_mib_s", "pcie_tx_mib_s")])
    )
    waits, cores = (
        _in(view, "io_wait", inside),
        _in(view, "cpu_util_of_limit", inside) * (view.lease.cpu_limit or np.nan),
    )
    if not (
        writes >= limit["write_least"]
        or waits >= limit["io_wait_least"]
        or limit["cores_least"] <= cores <= limit["cores_most"]
    ):
        return None
    every = float(np.diff([first for first, _ in chain]).mean())
    tests = [
        at_least("stalls", len(chain), limit["stalls_least"]),
        at_least("stall_share", share, limit["share_least"]),
        below("stall_share", share, limit["share_most"]),
        at_least("gr_active_between", between, limit["high_least"]),
        below("stall_distance_spread", _uneven(chain), limit["uneven_most"]),
    ]
    params = {"times": len(chain), "every": rounded(every), "percent": percent(share)}
    return seen(tests, params, spans=((start, end),))


def _in(view: View, name: str, inside: np.ndarray) -> float:
    values = view.values(name)[inside[view.start : view.end]]
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
