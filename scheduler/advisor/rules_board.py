"""The board is not well, or is set so that the work cannot run. Mostly a matter for the operator, not for the user."""

import numpy as np

from scheduler.advisor.findings import Param, Seen, at_least, below, percent, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Recording, runs_of
from scheduler.advisor.rules_waiting import link_mib_s
from scheduler.advisor.view import View

SLOWED = 0x20 | 0x40 | 0x80  # software thermal, hardware thermal, power brake; a power cap under full load is normal


def throttled(recording: Recording, counts: np.ndarray) -> list[Seen]:
    found = [_throttled(recording, counts, rank) for rank in range(len(recording.ranks))]
    return [one for one in found if one][:1]


def _throttled(recording: Recording, counts: np.ndarray, rank: int) -> Seen | None:
    limit = LIMITS["throttled"]
    reasons, clock = recording.series("clock_event_reasons", rank), recording.series("sm_clock_frac", rank)
    known = counts & np.isfinite(reasons) & np.isfinite(clock) & (recording.activity(rank) > limit["busy_least"])
    if known.sum() < LIMITS["gate"]["samples_least"]:
        return None
    slowed = known & ((np.where(known, reasons, 0).astype(int) & SLOWED) > 0)
    if not slowed.any():
        return None
    free = clock[known & ~slowed]
    usual = float(np.median(free)) if len(free) >= 30 else 1.0
    seconds = np.flatnonzero(slowed)
    span = (int(seconds[0]), int(seconds[-1]) + 1)
    share = float(slowed[span[0] : span[1]].sum() / max(known[span[0] : span[1]].sum(), 1))
    lower = float(np.median(clock[slowed])) / usual
    tests = [
        at_least("clock_event_share", share, limit["share_least"]),
        at_least("clock_event_seconds", float(slowed.sum()), limit["seconds_least"]),
        below("sm_clock_of_usual", lower, limit["clock_most"]),
    ]
    params: dict[str, Param] = {"percent": percent(1 - lower), "share": percent(share), "why": _why(reasons[slowed])}
    return seen(tests, params, spans=(span,), rank=rank)


def _why(reasons: np.ndarray) -> str:
    bits = int(np.bitwise_or.reduce(reasons.astype(int)))
    return "power" if bits & 0x80 else "heat"


def exclusive_mode(recording: Recording, counts: np.ndarray) -> list[Seen]:
    """One process at a time, and a second that came and went at once; or no process at all may run."""
    limit = LIMITS["exclusive_mode"]
    mode = recording.series("compute_mode", 0)
    known = mode[np.isfinite(mode)]
    if not len(known) or np.median(known) not in (2, 3):
        return []
    processes = recording.series("n_processes", 0)
    more = runs_of(np.where(np.isfinite(processes), processes, 0) > 1)
    refused = [run for run in more if run[1] - run[0] <= limit["lived_seconds_most"]]
    prohibited = np.median(known) == 2 and not (processes > 0).any()
    lasting = recording.lease.workers > 1 and not (len(more) > len(refused))
    if not (prohibited or refused or lasting):
        return []
    tests = [at_least("compute_mode", float(np.median(known)), 2.0)]
    if refused:
        tests.append(at_least("processes_refused", len(refused), limit["refused_least"]))
    one = seen(tests, {"times": len(refused)}, spans=((0, recording.seconds),))
    return [one] if one else []


def hw_fault(recording: Recording, counts: np.ndarray) -> list[Seen]:
    """Everything after it is void, so it holds from then on. Errors of the program itself have other numbers."""
    kinds = LIMITS["hw_fault"]["xids"]
    for rank in range(len(recording.ranks)):
        xid = recording.series("xid", rank)
        at = np.flatnonzero(np.isin(xid, kinds))
        if len(at):
            number = int(xid[at[0]])
            test = at_least("xid", float(number), float(number))
            params = {"xid": number, "second": int(at[0])}
            ends = number in LIMITS["hw_fault"]["ends_work"]
            return [Seen((test,), params, ((int(at[0]), recording.seconds),), rank, ended=ends)]
    return []


def pcie_degraded(view: View) -> Seen | None:
    """Links sleep when nothing is sent, so only one that is used is judged."""
    limit = LIMITS["pcie_degraded"]
    most = view.lease.pcie_max
    link = link_mib_s(view)
    if most is None or link is None:
        return None
    gen, width = float(np.nanmax(view.values("pcie_gen"))), float(np.nanmax(view.values("pcie_width")))
    rate = max(view.mean("pcie_rx_mib_s"), view.mean("pcie_tx_mib_s"))
    if gen >= most[0] and width >= most[1]:
        return None
    tests = [at_least("pcie_of_link", rate / link, limit["traffic_least"])]
    params = {"gen": int(gen), "width": int(width), "gen_most": most[0], "width_most": most[1]}
    return seen(tests, params)
