"""Healthy, but hardly: each comes close to what some rule looks for. Nothing may be said of any of them."""

from tests.traces.rendering import compute, phase, u


def nearly_waiting(rng):
    """Loads data for a quarter of the time at most, on CPUs that are well used."""
    limit = int(rng.choice([4, 8]))
    work = u(rng, 0.3, 0.6)
    return dict(
        ranks=[[phase(work * u(rng, 0.2, 0.33), 0.3, cpu=limit * u(rng, 0.7, 0.85), iow=u(rng, 0.1, 0.5), disk=60),
                compute(rng, work, u(rng, 0.35, 0.5), u(rng, 0.85, 0.95), 0.4, rx=300, cpu=limit * u(rng, 0.5, 0.8))]],
        mem=u(rng, 0.5, 0.85), cpu_limit=limit, labels=[])  # fmt: skip


def medium_kernels(rng):
    """Covers half of the GPU and more: no reason to complain, and no smaller slice would hold it."""
    fill = u(rng, 0.5, 0.7)
    return dict(ranks=[[compute(rng, 0.3, fill * 0.4, fill, u(rng, 0.25, 0.4), cpu=1.4, rx=40)]],
                mem=u(rng, 0.55, 0.85), labels=[])  # fmt: skip


def gang_in_step(rng):
    """Exchanges for a sixth of each step."""
    work = u(rng, 0.3, 0.6)
    exchange = phase(work * u(rng, 0.08, 0.18), 0.1, gr=0.95, sm=0.15, occ=0.06, dram=0.08, nvl=60000, cpu=2.0)
    one = [compute(rng, work, u(rng, 0.4, 0.55), u(rng, 0.9, 0.96), 0.4, rx=100, cpu=3), exchange]
    return dict(ranks=[one] * 4, mem=u(rng, 0.6, 0.9), mig=False, sync=True, labels=[])


def uneven_pipeline(rng):
    """Stages of a pipeline do not weigh the same; the lighter ones wait a little."""
    levels = [u(rng, 0.8, 0.93) for _ in range(4)]
    ranks = [[compute(rng, 0.4, 0.45, level, 0.4, cpu=2.5, nvl=9000)] for level in levels]
    return dict(ranks=ranks, mem=u(rng, 0.6, 0.85), mig=False, sync=True, labels=[])


def short_pauses(rng):
    """Evaluates for some seconds now and then."""
    return dict(ranks=[[compute(rng, u(rng, 200, 300), u(rng, 0.4, 0.5), u(rng, 0.86, 0.93), 0.4, cpu=4),
                        phase(u(rng, 6, 12), 0.3, cpu=1.0, iow=0.3, nettx=80)]],
                mem=u(rng, 0.6, 0.85), labels=[])  # fmt: skip


def one_long_pause(rng):
    """A single checkpoint of one to four minutes."""
    return dict(ranks=[[compute(rng, u(rng, 700, 1100), u(rng, 0.4, 0.5), u(rng, 0.86, 0.93), 0.4, cpu=4),
                        phase(u(rng, 60, 240), 0.1, cpu=1.0, iow=0.4, nettx=150)]],
                mem=u(rng, 0.6, 0.85), labels=[])  # fmt: skip


def thinking(rng):
    """A notebook whose owner thinks for minutes, never for fifteen."""
    return dict(ranks=[[phase(u(rng, 120, 300), 0.4, cpu=0.2), compute(rng, u(rng, 30, 90), 0.3, 0.8, 0.35, cpu=1.2)]],
                mem=u(rng, 0.2, 0.7), workload="notebook", labels=[], must_not=["idle_held"])  # fmt: skip


def stairs(rng):
    """Memory that grows for the first half and then levels off, as allocators and caches do."""
    return dict(ranks=[[compute(rng, 0.4, u(rng, 0.4, 0.55), u(rng, 0.85, 0.94), 0.4, cpu=3)]],
                mem=u(rng, 0.6, 0.85), mem_rise=u(rng, 300, 900), labels=[], must_not=["memory_leak"])  # fmt: skip


def power_capped(rng):
    """At its power limit under full load, which is normal, with a clock a little lower."""
    return dict(ranks=[[compute(rng, 0.7, u(rng, 0.5, 0.6), u(rng, 0.9, 0.97), 0.4, cpu=3)]], mem=u(rng, 0.6, 0.9),
                clock=u(rng, 0.75, 0.9), reasons=0x4, reasons_share=0.9, power=0.99, mig=False, labels=[])  # fmt: skip


def brief_heat(rng):
    """Slowed by heat for a few percent of the time."""
    return dict(ranks=[[compute(rng, 0.7, 0.5, u(rng, 0.86, 0.95), 0.4, cpu=3)]], mem=u(rng, 0.6, 0.9),
                clock=0.7, reasons=0x20, reasons_share=u(rng, 0.02, 0.12), power=0.8, mig=False, labels=[])  # fmt: skip


def gathers(rng):
    """Graph and embedding work: limited by memory, no matrices, so its idle tensor pipes are right."""
    return dict(ranks=[[compute(rng, 0.3, u(rng, 0, 0.01), u(rng, 0.8, 0.92), u(rng, 0.56, 0.72), cpu=2,
                                fp32=u(rng, 0.2, 0.35))]],
                mem=u(rng, 0.6, 0.9), labels=[], info=["memory_bound"], must_not=["tensor_unused"])  # fmt: skip


def steady_service(rng):
    """Serves all the time, with gaps."""
    return dict(ranks=[[phase(u(rng, 0.05, 0.2), 1.0, cpu=0.5),
                        phase(u(rng, 0.3, 0.6), 0.4, gr=0.95, sm=u(rng, 0.6, 0.8), tensor=0.25, dram=0.4, cpu=1)]],
                mem=u(rng, 0.6, 0.8), workload="service", labels=[])  # fmt: skip


def full_cache(rng):
    """Memory nearly full of what it could also do without, with spare compute."""
    return dict(ranks=[[compute(rng, 0.4, 0.3, u(rng, 0.55, 0.65), 0.35, cpu=2)]], mem=u(rng, 0.95, 0.98),
                mem_wobble=0.006, labels=[], must_not=["slice_too_small"])  # fmt: skip


def library_in_double(rng):
    """A framework that computes a little in double precision, as losses and statistics do."""
    return dict(ranks=[[compute(rng, 0.5, u(rng, 0.3, 0.5), u(rng, 0.85, 0.93), 0.35, fp64=u(rng, 0.01, 0.05), cpu=3)]],
                mem=u(rng, 0.6, 0.9), labels=[])  # fmt: skip


def fed_by_full_cpu(rng):
    """All cores full, and the GPU never waits for them."""
    return dict(ranks=[[compute(rng, 0.5, u(rng, 0.35, 0.5), u(rng, 0.85, 0.94), 0.4, rx=400, cpu=7.8, cpuw=0.4)]],
                mem=u(rng, 0.5, 0.85), cpu_limit=8, labels=[], must_not=["input_cpu"])  # fmt: skip


def fed_by_busy_disk(rng):
    """Reads all the time, ahead of what is needed."""
    return dict(ranks=[[compute(rng, 0.5, u(rng, 0.35, 0.5), u(rng, 0.85, 0.94), 0.4, cpu=3, iow=0.6, net=300)]],
                mem=u(rng, 0.5, 0.85), labels=[], must_not=["input_storage"])  # fmt: skip


def stops_early(rng):
    """Done ten minutes before the end, the process still there: not yet worth a word."""
    return dict(ranks=[[compute(rng, 0.4, 0.45, u(rng, 0.85, 0.94), 0.4, cpu=2)]], mem=u(rng, 0.5, 0.8),
                idle_after=1800 - u(rng, 500, 800), labels=[])  # fmt: skip


BORDERLINE = {
    cause.__name__: cause
    for cause in (
        nearly_waiting, medium_kernels, gang_in_step, uneven_pipeline, short_pauses, one_long_pause, thinking, stairs,
        power_capped, brief_heat, gathers, steady_service, full_cache, library_in_double, fed_by_full_cpu,
        fed_by_busy_disk, stops_early,
    )
}  # fmt: skip
