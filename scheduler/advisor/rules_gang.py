"""Several GPUs that work on one thing: they wait for the exchange, or for the one among them that is late."""

from statistics import median

from scheduler.advisor.findings import Seen, at_least, below, percent, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.view import View


def comm_bound(view: View) -> Seen | None:
    """Collectives spin in kernels: all are busy, none is filled, and all alike."""
    limit = LIMITS["comm_bound"]
    ranks = view.used_ranks
    if len(ranks) < 2 or not view.knows_of_each("sm_active"):
        return None
    work = [view.mean("sm_active", rank) for rank in ranks]
    tests = [
        at_least("gr_active", min(view.mean("gr_active", rank) for rank in ranks), limit["busy_least"]),
        below("sm_active", sum(work) / len(work), limit["work_most"]),
        below("sm_active_spread", (max(work) - min(work)) / max(max(work), 1e-9), limit["spread_most"]),
    ]
    traffic = _traffic(view)
    if traffic == 0:
        return None
    fill = sum(work) / len(work) / max(view.busy, 1e-9)
    params = {"percent": percent(1 - fill), "ranks": len(ranks), "over": "nvlink" if traffic == 1 else "network"}
    return seen(tests, params, unsure=traffic is None)


def _traffic(view: View) -> int | None:
    """1: over NVLink, 2: over the network, 0: measured, and there is none, None: not measured."""
    limit = LIMITS["comm_bound"]
    if view.knows("nvlink_mib_s") and view.mean("nvlink_mib_s") >= limit["nvlink_least"]:
        return 1
    rates = [view.mean(name) for name in ("net_rx_mib_s", "net_tx_mib_s") if view.knows(name)]
    if sum(rates) >= limit["net_least"]:
        return 2
    return 0 if rates and view.knows("nvlink_mib_s") else None


def straggler(view: View) -> Seen | None:
    """One does the work of the step for longer, the others spin inside the collective; or one comes with gaps."""
    limit = LIMITS["straggler"]
    ranks = view.used_ranks
    if len(ranks) < 2 or not view.knows_of_each("sm_active") or not view.knows_of_each("gr_active"):
        return None
    work = {rank: view.mean("sm_active", rank) for rank in ranks}
    busy = {rank: view.mean("gr_active", rank) for rank in ranks}
    late = max(ranks, key=lambda rank: work[rank])
    others = [rank for rank in ranks if rank != late]
    middle = median(work[rank] for rank in others)
    tests = [
        at_least("sm_active_ratio", work[late] / max(middle, 1e-9), limit["ratio_least"]),
        at_least("gr_active", min(busy[rank] for rank in others), limit["others_busy_least"]),
        below("sm_active", max(work[rank] for rank in others), limit["others_work_most"]),
    ]
    params = {"rank": late, "others": len(others), "percent": percent(1 - middle / max(work[late], 1e-9))}
    return seen(tests, params, rank=late) or _with_gaps(view, work, busy)


def _with_gaps(view: View, work: dict[int, float], busy: dict[int, float]) -> Seen | None:
    limit = LIMITS["straggler"]
    late = min(busy, key=lambda rank: busy[rank])
    others = [rank for rank in busy if rank != late]
    middle = median(busy[rank] for rank in others)
    tests = [
        below("gr_active_ratio", busy[late] / max(middle, 1e-9), limit["late_busy_ratio_most"]),
        at_least("gr_active", min(busy[rank] for rank in others), limit["others_busy_least"]),
        below("sm_active", max(work[rank] for rank in others), limit["others_work_most"]),
    ]
    return seen(tests, {"rank": late, "others": len(others), "percent": percent(1 - busy[late])}, rank=late)
