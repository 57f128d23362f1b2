"""Too large, too small, growing, or reserved by the framework, so that what is held says nothing of what is needed."""

from dataclasses import dataclass

import numpy as np

from scheduler.advisor.findings import Param, Seen, Test, at_least, below, percent, rounded, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Size, blocks_of
from scheduler.advisor.view import View


@dataclass(frozen=True)
class Fit:
    """``stretch``: how many times as long the run would take. ``saving``: of its slice-seconds."""

    size: Size
    stretch: float
    saving: float


def slice_too_big(view: View) -> Seen | None:
    """Where all is waited for, the wait is the matter and not the size; people at a keyboard need it now and then."""
    limit = LIMITS["slice_too_big"]
    if view.lease.workload == "notebook" or not view.lease.ended or not view.knows("mem_used_frac", "dram_active"):
        return None
    fit = smaller_fit(view)
    if fit is None:
        return None
    peak = memory_peak_mib(view)
    tests = [
        below("sm_active", view.work, limit["work_most"]),
        at_least("gr_active", view.busy, limit["busy_least"]),
        below("stretch", fit.stretch, limit["stretch_most"]),
        at_least("saving", fit.saving, limit["saving_least"]),
        below("mem_used_mib", peak, fit.size.memory_mib),
    ]
    params: dict[str, Param] = {
        "size": fit.size.name, "longer_percent": percent(fit.stretch - 1), "less_percent": percent(fit.saving),
        "peak_mib": rounded(peak),
    }  # fmt: skip
    return seen(tests, params, rebook=fit.size.name)


def smaller_fit(view: View) -> Fit | None:
    """The smallest size that holds the peak and that no third of the run would find too slow."""
    own = view.lease.size
    if own is None or not view.knows("sm_active"):
        return None
    limit = LIMITS["slice_too_big"]
    needs = memory_peak_mib(view) * limit["memory_factor"] + limit["memory_extra_mib"]
    for size in sorted(view.lease.smaller, key=lambda size: (size.sms, size.memory_mib)):
        if size.slices >= own.slices or needs > size.memory_mib:
            continue
        stretch = max(_stretch(part, own, size) for part in [view, *_thirds(view)])
        saving = 1 - size.slices / own.slices * stretch
        if stretch < limit["stretch_most"] and saving >= limit["saving_least"]:
            return Fit(size, stretch, saving)
    return None


def memory_peak_mib(view: View) -> float:
    """The maximum of all seconds, the warm-up too: a spike of 3 s counts, since it would kill the run."""
    own = view.lease.size
    peaks = [np.nanmax(view.recording.series("mem_used_frac", rank)) for rank in view.used_ranks]
    return float(max(peaks)) * own.memory_mib if own else float("nan")


def _stretch(view: View, own: Size, size: Size) -> float:
    busy = view.busy
    if busy != busy or busy < LIMITS["slice_too_big"]["busy_least"]:
        return 1.0
    share = LIMITS["slice_too_big"]["dram_peak"] * size.memory_slices / own.memory_slices
    compute = view.mean("sm_active") / busy * own.sms / size.sms
    bandwidth = view.mean("dram_active") / busy / share
    return float(1 - busy + busy * max(1.0, compute, bandwidth))


def _thirds(view: View) -> list[View]:
    third = (view.end - view.start) // 3
    edges = [view.start, view.start + third, view.start + 2 * third, view.end]
    parts = [View(view.recording, view.counts, a, b) for a, b in zip(edges, edges[1:], strict=False)]
    return [part for part in parts if view.counts[part.start : part.end].sum() >= 60]


def slice_too_small(view: View) -> Seen | None:
    """Full nearly always, and at work: full memory alone may be a cache. Reserved memory is another rule's."""
    limit = LIMITS["slice_too_small"]
    if is_reserved(view):
        return None
    memory = view.values("mem_used_frac")
    low = float(np.nanquantile(memory, limit["memory_quantile"])) if view.knows("mem_used_frac") else float("nan")
    tests = [
        at_least("mem_used_frac", low, limit["memory_least"]),
        at_least("sm_active", view.work, limit["work_least"]),
    ]
    return seen(tests, {"percent": percent(low)})


def is_reserved(view: View) -> bool:
    return len(_signs(view)) >= LIMITS["prealloc"]["evidence_least"]


def prealloc(view: View) -> Seen | None:
    """A fact about the number, not a fault: flat for ten minutes, and one sign more."""
    signs = _signs(view)
    if "flat" not in signs or len(signs) < LIMITS["prealloc"]["evidence_least"]:
        return None
    level = float(np.nanmedian(view.values("mem_used_frac")))
    return seen(list(signs.values()), {"percent": percent(level)})


def _signs(view: View) -> dict[str, Test]:
    """What speaks for a reservation: a jump, a level without a tremble, and a level known of the framework."""
    limit = LIMITS["prealloc"]
    if not view.knows("mem_used_frac"):
        return {}
    whole = view.recording.series("mem_used_frac", view.used_ranks[0])
    inside = view.values("mem_used_frac", view.used_ranks[0])
    inside = inside[np.isfinite(inside)]
    filled = np.where(np.isfinite(whole), whole, -np.inf)
    lag = limit["jump_seconds"]
    rises = filled[lag:] - whole[:-lag]
    jump = float(np.nanmax(rises)) if np.isfinite(rises).any() else float("nan")
    spread = float(np.quantile(inside, 0.99) - np.quantile(inside, 0.05))
    level = float(np.median(inside))
    tests = {"jump": at_least("mem_jump", jump, limit["jump_least"])}
    if len(inside) >= limit["flat_seconds"]:
        tests["flat"] = below("mem_spread", spread, limit["flat_most"])
    framework = (view.lease.framework or "").lower()
    if framework == "tensorflow":
        tests["level"] = at_least("mem_used_frac", level, limit["tensorflow_least"])
    elif framework in limit["levels"]:
        tests["level"] = below("mem_from_level", abs(level - limit["levels"][framework]), limit["level_near"])
    return {name: test for name, test in tests.items() if test.holds}


def memory_leak(view: View) -> Seen | None:
    """Rises in every sixth of the run, and in the last third about as fast as in the first: caches level off."""
    limit = LIMITS["memory_leak"]
    first, last = view.span
    if last - first < limit["seconds_least"] or not view.knows("mem_used_frac"):
        return None
    levels = blocks_of(view.values("mem_used_frac")[first - view.start : last - view.start], 10)
    levels = levels[np.isfinite(levels)]
    edges = np.linspace(0, len(levels) - 1, 7).astype(int)
    at = np.array([np.median(levels[max(edge - 1, 0) : edge + 2]) for edge in edges])
    rises = np.diff(at)
    pace = (at[6] - at[4]) / (at[2] - at[0]) if at[2] > at[0] else 0.0
    tests = [
        at_least("mem_rise_total", float(at[6] - at[0]), limit["total_least"]),
        at_least("mem_rise_least", float(rises.min()), limit["rises_least"]),
        at_least("mem_rise_pace", float(pace), limit["pace_least"]),
        below("mem_rise_pace", float(pace), limit["pace_most"]),
    ]
    per_hour = (at[6] - at[0]) / (last - first) * 3600
    left = max(0.0, 1 - at[6]) / per_hour * 60 if per_hour > 0 else 0.0
    return seen(tests, {"percent": percent(per_hour), "minutes": rounded(left)})
