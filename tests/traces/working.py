"""The GPU works, but too small, on the wrong pipes, in the wrong size, or on a board that is not well."""

from tests.traces.rendering import compute, phase, u


def small_kernels(rng):
    return dict(
        ranks=[
            [
                phase(
                    0.004,
                    0.2,
                    gr=u(rng, 0.8, 0.97),
                    sm=u(rng, 0.1, 0.28),
                    occ=u(rng, 0.03, 0.1),
                    tensor=u(rng, 0.01, 0.05),
                    dram=u(rng, 0.05, 0.15),
                    cpu=1.0,
                    rx=15,
                )
            ]
        ],
        mem=u(rng, 0.08, 0.35),
        profile="7g",
        labels=["small_kernels"],
        sized=True,
        also=["slice_too_big"],
        must_not=["input_cpu", "input_storage"],
    )


def tensor_unused(rng):
    return dict(
        ranks=[
            [
                compute(
                    rng,
                    0.8,
                    u(rng, 0, 0.006),
                    u(rng, 0.85, 0.97),
                    u(rng, 0.25, 0.45),
                    fp32=u(rng, 0.45, 0.75),
                    rx=150,
                    cpu=3,
                )
            ]
        ],
        mem=u(rng, 0.5, 0.9),
        labels=["tensor_unused"],
    )


def fp64_accident(rng):
    return dict(
        ranks=[[compute(rng, 0.8, 0.0, u(rng, 0.85, 0.95), u(rng, 0.1, 0.3), fp64=u(rng, 0.3, 0.7), fp32=0.05, cpu=2)]],
        mem=u(rng, 0.3, 0.8),
        framework="pytorch",
        labels=["fp64_accident"],
        must_not=["tensor_unused"],
    )


def slice_too_big(rng):
    fill = u(rng, 0.12, 0.3)
    return dict(
        ranks=[
            [
                phase(
                    0.02,
                    0.1,
                    gr=u(rng, 0.9, 0.98),
                    sm=fill,
                    occ=fill * 0.5,
                    tensor=fill * 0.45,
                    dram=fill * 0.5,
                    cpu=1.1,
                    rx=30,
                )
            ]
        ],
        mem=u(rng, 0.05, 0.11),
        profile="7g",
        mem_wobble=0.004,
        labels=["slice_too_big", "small_kernels"],
        sized=True,
        must_not=["prealloc"],
    )


def slice_too_small(rng):
    return dict(
        ranks=[[compute(rng, 0.9, u(rng, 0.45, 0.6), u(rng, 0.95, 1), u(rng, 0.5, 0.7), cpu=3)]],
        mem=u(rng, 0.965, 0.99),
        profile="1g",
        mem_wobble=0.006,
        labels=["slice_too_small"],
        must_not=["slice_too_big"],
    )


def prealloc(rng):
    fill = u(rng, 0.1, 0.22)
    tf = rng.random() < 0.4
    return dict(
        ranks=[
            [
                phase(
                    0.02,
                    0.1,
                    gr=u(rng, 0.85, 0.95),
                    sm=fill,
                    occ=fill * 0.5,
                    tensor=fill * 0.4,
                    dram=fill * 0.5,
                    cpu=1.2,
                )
            ]
        ],
        mem=u(rng, 0.94, 0.975) if tf else 0.75,
        mem_rise=2,
        mem_wobble=0.0,
        profile="7g",
        framework="tensorflow" if tf else "jax",
        labels=["prealloc", "small_kernels"],
        must_not=["slice_too_small"],
        demand=u(rng, 0.05, 0.12),
    )


def throttled(rng):
    bit = int(rng.choice([0x40 | 0x8, 0x20, 0x80 | 0x8]))
    return dict(
        ranks=[[compute(rng, 0.9, u(rng, 0.25, 0.35), u(rng, 0.85, 0.95), 0.3, cpu=3)]],
        mem=u(rng, 0.6, 0.9),
        clock=u(rng, 0.4, 0.7),
        reasons=bit,
        reasons_share=u(rng, 0.5, 0.95),
        power=u(rng, 0.45, 0.65),
        mig=False,
        labels=["throttled"],
    )


def exclusive_mode(rng):
    a = [compute(rng, 0.3, 0.2, 0.5, 0.2, cpu=1.2)]
    return dict(
        ranks=[a],
        mem=u(rng, 0.1, 0.3),
        compute_mode=3,
        mig=False,
        profile="7g",
        labels=["exclusive_mode"],
        procs=1,
        restarts=3,
    )


def hw_fault(rng):
    x = int(rng.choice([48, 63, 74, 79, 94, 95]))
    return dict(
        ranks=[[compute(rng, 0.5, 0.5, 0.9, 0.4, cpu=3)]],
        mem=u(rng, 0.6, 0.9),
        xid=x,
        dies=x in (79, 95, 48),
        labels=["hw_fault"],
        must_not=["idle_held"],
    )


def pcie_degraded(rng):
    return dict(
        ranks=[[phase(0.6, 0.1, gr=0.02, rx=u(rng, 1300, 1500), cpu=1), compute(rng, 0.1, 0.25, 0.85, 0.4, cpu=1)]],
        mem=u(rng, 0.4, 0.7),
        mig=False,
        pcie=(4, 1) if rng.random() < 0.5 else (1, 8),
        labels=["pcie_degraded", "transfer_bound"],
    )


def memory_leak(rng):
    return dict(
        ranks=[[compute(rng, 0.5, 0.45, 0.9, 0.4, cpu=3)]],
        mem=u(rng, 0.35, 0.5),
        leak=u(rng, 0.4, 0.55),
        labels=["memory_leak"],
        must_not=["slice_too_big"],
    )
