"""The GPU works: in kernels too small for it, on the slow pipes, in double precision, or at the limit of its memory.

The kind of work is judged while something runs: a job that waits half of the time has half of each mean.
"""

from scheduler.advisor.findings import Seen, at_least, below, percent, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.view import View

FRAMEWORKS = {"pytorch", "torch", "tensorflow", "tf", "keras", "jax", "vllm", "lightning", "mxnet", "paddle"}


def is_framework(view: View) -> bool:
    """A program of its own in CUDA may mean what it does."""
    return (view.lease.framework or "").lower() in FRAMEWORKS and not view.lease.double_precision_wanted


def small_kernels(view: View) -> Seen | None:
    limit = LIMITS["small_kernels"]
    tests = [
        at_least("gr_active", view.busy, limit["busy_least"]),
        below("fill", view.fill, limit["fill_most"]),
        below("dram_active", view.mean("dram_active"), limit["dram_most"]),
    ]
    return seen(tests, {"percent": percent(view.fill)})


def tensor_unused(view: View) -> Seen | None:
    """FP64 accidents leave the tensor pipes idle as well, so one of the two other pipes must be known."""
    limit = LIMITS["tensor_unused"]
    if not is_framework(view) or not view.knows("sm_active"):
        return None
    fp32, fp64 = view.knows("fp32_active"), view.knows("fp64_active")
    if not (fp32 or fp64):
        return None
    tests = [
        at_least("gr_active", view.busy, limit["busy_least"]),
        at_least("fill", view.fill, limit["fill_least"]),
        below("tensor_active", _while_busy(view, "tensor_active"), limit["tensor_most"]),
        below("dram_active", _while_busy(view, "dram_active"), limit["dram_most"]),
    ]
    if fp32:
        tests.append(at_least("fp32_active", _while_busy(view, "fp32_active"), limit["fp32_least"]))
    if fp64:
        tests.append(below("fp64_active", _while_busy(view, "fp64_active"), limit["fp64_most"]))
    return seen(tests, {"percent": percent(_while_busy(view, "fp32_active"))}, unsure=not fp32)


def fp64_accident(view: View) -> Seen | None:
    limit = LIMITS["fp64_accident"]
    if not is_framework(view):
        return None
    fp64 = _while_busy(view, "fp64_active")
    tests = [
        at_least("gr_active", view.busy, limit["busy_least"]),
        at_least("fp64_active", fp64, limit["fp64_least"]),
    ]
    return seen(tests, {"percent": percent(fp64)})


def memory_bound(view: View) -> Seen | None:
    limit = LIMITS["memory_bound"]
    dram = view.mean("dram_active")
    tests = [
        at_least("gr_active", view.busy, limit["busy_least"]),
        at_least("dram_active", dram, limit["dram_least"]),
        below("tensor_active", view.mean("tensor_active"), limit["tensor_most"]),
    ]
    return seen(tests, {"percent": percent(dram)})


def _while_busy(view: View, name: str) -> float:
    return view.mean(name) / view.busy if view.busy > 0 else float("nan")
