"""The GPU is not used, or waits for something."""

from tests.traces.rendering import compute, phase, u


def no_process(rng):
    return dict(ranks=[[phase(1, cpu=0.02)]], mem=0, procs=0, labels=["no_process"], must_not=["idle_held"], warm=5)


def idle_held(rng):
    used = u(rng, 150, 330)
    return dict(
        ranks=[[compute(rng, 0.3, 0.3, 0.7, 0.3, cpu=1.5)]],
        mem=u(rng, 0.15, 0.6),
        idle_after=used,
        labels=["idle_held"],
        workload="notebook",
        procs=1,
    )


def unused_gpu(rng):
    a = [compute(rng, 0.5, u(rng, 0.35, 0.55), u(rng, 0.8, 0.93), 0.4, rx=200, cpu=4)]
    ctx = u(rng, 0, 1) < 0.5
    return dict(
        ranks=[a, [phase(1)]],
        mem=[u(rng, 0.6, 0.85), 0.006 if ctx else 0.0],
        procs=[1, 1 if ctx else 0],
        labels=["unused_gpu"],
        must_not=["straggler", "comm_bound"],
    )


def cpu_fallback(rng):
    return dict(
        ranks=[[phase(1, cpu=u(rng, 6.5, 8), cpuw=0.5)]],
        mem=0,
        procs=0,
        cpu_limit=8,
        labels=["cpu_fallback"],
        must_not=["input_cpu"],
        framework="pytorch",
        warm=20,
    )


def input_cpu(rng):
    wait, work = u(rng, 0.35, 1.2), u(rng, 0.12, 0.3)
    lim = int(rng.choice([2, 4, 8]))
    return dict(
        ranks=[
            [
                phase(wait, 0.3, cpu=lim * 1.05, cpuw=0.6, disk=25, iow=0.03),
                compute(
                    rng, work, u(rng, 0.35, 0.5), u(rng, 0.85, 0.95), 0.4, rx=600, cpu=lim * 0.97, cpuw=0.5, disk=25
                ),
            ]
        ],
        mem=u(rng, 0.4, 0.8),
        cpu_limit=lim,
        labels=["input_cpu"],
        must_not=["input_storage", "small_kernels"],
    )


def input_storage(rng):
    wait, work = u(rng, 0.6, 2.5), u(rng, 0.15, 0.35)
    remote = rng.random() < 0.5
    rate = u(rng, 40, 180)
    d, n = (5, rate) if remote else (rate, 1)
    return dict(
        ranks=[
            [
                phase(wait, 0.6, cpu=0.8, iow=0.75, disk=d, net=n),
                compute(
                    rng, work, u(rng, 0.35, 0.5), u(rng, 0.85, 0.95), 0.4, rx=500, cpu=1.5, iow=0.55, disk=d, net=n
                ),
            ]
        ],
        mem=u(rng, 0.4, 0.8),
        cpu_limit=16,
        labels=["input_storage"],
        must_not=["input_cpu", "small_kernels"],
    )


def transfer_bound(rng):
    copy, work = u(rng, 0.12, 0.3), u(rng, 0.05, 0.12)
    return dict(
        ranks=[
            [
                phase(copy, 0.1, gr=0.03, rx=u(rng, 9000, 18000), tx=u(rng, 500, 4000), cpu=1.0),
                compute(rng, work, 0.25, 0.85, 0.5, cpu=1.0),
            ]
        ],
        mem=u(rng, 0.3, 0.7),
        mig=False,
        labels=["transfer_bound"],
        must_not=["small_kernels"],
    )


def host_bound(rng):
    return dict(
        ranks=[
            [
                phase(u(rng, 0.03, 0.08), 0.4, cpu=1.0),
                phase(
                    u(rng, 0.01, 0.02),
                    0.3,
                    gr=0.9,
                    sm=u(rng, 0.4, 0.6),
                    occ=0.15,
                    tensor=u(rng, 0.1, 0.2),
                    dram=0.2,
                    cpu=1.0,
                    rx=10,
                ),
            ]
        ],
        mem=u(rng, 0.1, 0.4),
        cpu_limit=8,
        profile="7g",
        labels=["host_bound"],
        sized=True,
        also=["slice_too_big"],
        must_not=["input_storage", "input_cpu"],
    )


def comm_bound(rng):
    work, comm = u(rng, 0.25, 0.5), u(rng, 0.35, 0.8)
    net = rng.random() < 0.5
    c = dict(gr=0.95, sm=u(rng, 0.1, 0.2), occ=0.06, dram=0.08, cpu=2.0)
    c.update(
        dict(net=u(rng, 700, 1150), nettx=u(rng, 700, 1150), rx=1200, tx=1200)
        if net
        else dict(nvl=u(rng, 60000, 160000))
    )
    one = [compute(rng, work, u(rng, 0.45, 0.6), u(rng, 0.88, 0.96), 0.4, rx=100, cpu=3), phase(comm, 0.1, **c)]
    return dict(
        ranks=[one] * 4,
        mem=u(rng, 0.6, 0.9),
        mig=False,
        sync=True,
        labels=["comm_bound"],
        must_not=["straggler", "small_kernels"],
    )


def straggler(rng):
    work, slow = u(rng, 0.25, 0.4), u(rng, 1.5, 2.2)
    spin = dict(gr=0.98, sm=0.06, occ=0.03, dram=0.01, cpu=1.5)
    fast = [compute(rng, work, 0.5, 0.92, 0.4, cpu=3), phase(work * (slow - 1) + 0.03, 0.1, nvl=2500, **spin)]
    late = [compute(rng, work * slow, 0.5 / slow, 0.93, 0.4, cpu=3), phase(0.03, 0.1, nvl=30000, **spin)]
    ranks = [fast] * 4
    ranks[int(rng.integers(0, 4))] = late
    return dict(ranks=ranks, mem=u(rng, 0.6, 0.9), mig=False, sync=True, labels=["straggler"], must_not=["comm_bound"])


def periodic_stalls(rng):
    return dict(
        ranks=[
            [
                compute(rng, u(rng, 70, 140), u(rng, 0.4, 0.55), u(rng, 0.86, 0.95), 0.4, rx=200, cpu=4),
                phase(u(rng, 35, 70), 0.15, cpu=1.0, tx=150, iow=0.45, nettx=120),
            ]
        ],
        mem=u(rng, 0.6, 0.85),
        labels=["periodic_stalls"],
        must_not=["input_cpu", "idle_held"],
    )


def low_duty_service(rng):
    return dict(
        ranks=[
            [
                phase(u(rng, 1.2, 3), 1.0, cpu=0.1),
                phase(
                    u(rng, 0.08, 0.25),
                    0.5,
                    gr=0.9,
                    sm=u(rng, 0.3, 0.6),
                    occ=0.15,
                    tensor=0.15,
                    dram=0.3,
                    cpu=1.0,
                    net=2,
                ),
            ]
        ],
        mem=u(rng, 0.2, 0.5),
        workload="service",
        profile="7g",
        labels=["low_duty_service"],
        sized=True,
        also=["slice_too_big"],
        must_not=["idle_held", "input_storage"],
    )
