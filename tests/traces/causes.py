"""Thirty causes of use and disuse by name, seven of them healthy.

A cause draws a lease: its ranks, one loop of phases a GPU, what differs from the defaults, and the truth about it.
``labels`` must be found, ``also`` may be, ``info`` are facts and no faults, ``must_not`` would be false.
"""

from tests.traces import healthy, waiting, working

CONTROLS = (
    healthy.healthy_train,
    healthy.healthy_llm_decode,
    healthy.healthy_hpc_fp64,
    healthy.healthy_small_slice,
    healthy.healthy_jax,
    healthy.healthy_long_compile,
    healthy.notebook_active,
)
FAULTS = (
    waiting.no_process,
    waiting.idle_held,
    waiting.unused_gpu,
    waiting.cpu_fallback,
    waiting.input_cpu,
    waiting.input_storage,
    waiting.transfer_bound,
    working.small_kernels,
    waiting.host_bound,
    working.tensor_unused,
    working.fp64_accident,
    working.slice_too_big,
    working.slice_too_small,
    working.prealloc,
    waiting.comm_bound,
    waiting.straggler,
    working.throttled,
    working.exclusive_mode,
    working.hw_fault,
    waiting.periodic_stalls,
    waiting.low_duty_service,
    working.pcie_degraded,
    working.memory_leak,
)
CAUSES = {cause.__name__: cause for cause in (*CONTROLS, *FAULTS)}
