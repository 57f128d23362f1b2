"""Seven controls: nothing is wrong with them, though each looks like something."""

from tests.traces.rendering import compute, phase, u


def healthy_train(rng):
    step = u(rng, 0.2, 0.9)
    return dict(
        ranks=[
            [
                phase(step * 0.02, cpu=2),
                compute(rng, step, u(rng, 0.35, 0.6), u(rng, 0.82, 0.95), u(rng, 0.3, 0.5), rx=250, cpu=4),
            ]
        ],
        mem=u(rng, 0.7, 0.9),
        labels=[],
        workload="batch",
    )


def healthy_llm_decode(rng):
    return dict(
        ranks=[[compute(rng, 0.04, u(rng, 0.03, 0.1), u(rng, 0.8, 0.93), u(rng, 0.6, 0.75), rx=20, cpu=1.6)]],
        mem=0.90,
        mem_rise=6,
        labels=[],
        info=["memory_bound"],
        framework="vllm",
        workload="service",
        must_not=["tensor_unused", "slice_too_big", "small_kernels"],
    )


def healthy_hpc_fp64(rng):
    return dict(
        ranks=[
            [compute(rng, 0.3, 0.0, u(rng, 0.85, 0.95), u(rng, 0.35, 0.6), fp64=u(rng, 0.3, 0.6), fp32=0.05, cpu=1.0)]
        ],
        mem=u(rng, 0.3, 0.6),
        labels=[],
        framework="cuda",
        must_not=["fp64_accident", "tensor_unused"],
    )


def healthy_small_slice(rng):
    return dict(
        ranks=[[compute(rng, 0.25, u(rng, 0.3, 0.5), u(rng, 0.85, 0.95), u(rng, 0.3, 0.5), cpu=1.5)]],
        mem=u(rng, 0.75, 0.9),
        labels=[],
        profile="1g",
        must_not=["slice_too_big"],
    )


def healthy_jax(rng):
    return dict(
        ranks=[[compute(rng, 0.4, u(rng, 0.4, 0.6), u(rng, 0.85, 0.95), u(rng, 0.3, 0.5), cpu=2)]],
        mem=0.75,
        mem_rise=2,
        mem_wobble=0.0,
        labels=[],
        info=["prealloc"],
        framework="jax",
        must_not=["slice_too_big"],
    )


def healthy_long_compile(rng):
    return dict(
        ranks=[[compute(rng, 0.5, u(rng, 0.4, 0.6), u(rng, 0.85, 0.95), u(rng, 0.3, 0.5), cpu=3)]],
        mem=u(rng, 0.6, 0.85),
        warm=int(u(rng, 200, 280)),
        labels=[],
        must_not=["no_process", "idle_held", "cpu_fallback"],
    )


def notebook_active(rng):
    busy = u(rng, 30, 60)
    return dict(
        ranks=[
            [phase(u(rng, 20, 45), 0.7, cpu=0.3), compute(rng, busy, u(rng, 0.3, 0.5), u(rng, 0.8, 0.92), 0.35, cpu=2)]
        ],
        mem=u(rng, 0.5, 0.8),
        labels=[],
        workload="notebook",
        must_not=["idle_held"],
    )
