"""Counters of one rank at 1 Hz: the share of each second spent in each phase is integrated exactly, so that a stall
shorter than a second lowers the mean, as it does on a device."""

import math

import numpy as np

ZERO: dict[str, float] = dict(
    gr=0,
    sm=0,
    occ=0,
    tensor=0,
    dram=0,
    fp64=0,
    fp32=0,
    fp16=0,
    rx=0,
    tx=0,
    nvl=0,
    cpu=0.15,
    disk=0,
    net=0,
    nettx=0,
    iow=0,
    cpuw=0,
)


def phase(seconds, cv=0.15, **values):
    """One phase of a loop: mean length in s, coefficient of variation, counter values while it lasts."""
    return seconds, cv, {**ZERO, **values}


def shares(rng, phases, seconds):
    """Share of every second spent in each phase, shape (phases, seconds); exact, no grid."""
    means = np.array([max(p[0], 1e-6) for p in phases])
    loop = means.sum()
    n = int(seconds / loop * 1.3) + 8
    if n > 400_000:  # very short loops: the law of large numbers is good enough
        frac = means / loop
        jitter = rng.normal(0, 0.02, (len(phases), seconds))
        out = np.clip(frac[:, None] * (1 + jitter), 0, None)
        return out / out.sum(0)
    draws = []
    for mean, cv, _ in phases:
        sigma = math.sqrt(math.log(1 + cv * cv))
        draws.append(mean * rng.lognormal(-sigma * sigma / 2, sigma, n))
    durations = np.stack(draws, 1).ravel()
    edges = np.concatenate([[0.0], np.cumsum(durations)])
    if edges[-1] < seconds:
        durations = np.concatenate([durations, durations])
        edges = np.concatenate([[0.0], np.cumsum(durations)])
    ticks = np.arange(seconds + 1, dtype=float)
    out = np.empty((len(phases), seconds))
    for k in range(len(phases)):
        mine = np.zeros_like(durations)
        mine[k :: len(phases)] = durations[k :: len(phases)]
        out[k] = np.diff(np.interp(ticks, edges, np.concatenate([[0.0], np.cumsum(mine)])))
    return out


def drift(rng, n, sd, rho=0.98):
    """Slow AR(1) factor around 1."""
    e = rng.normal(0, sd * math.sqrt(1 - rho * rho), n)
    x = np.empty(n)
    acc = 0.0
    for i in range(n):
        acc = rho * acc + e[i]
        x[i] = acc
    return 1 + x


def render(rng, phases, seconds, noise=0.03):
    """Counters of one rank before memory, power and clocks: dict of arrays."""
    w = shares(rng, phases, seconds)
    slow = drift(rng, seconds, 0.04)
    out = {}
    for key in ZERO:
        v = np.array([p[2][key] for p in phases], float)
        x = (v[:, None] * w).sum(0)
        if key not in ("gr",):
            x = x * slow
        x = x * (1 + rng.normal(0, noise, seconds))
        out[key] = np.maximum(x, 0)
    for key in ("gr", "sm", "occ", "tensor", "dram", "fp64", "fp32", "fp16", "iow", "cpuw"):
        out[key] = np.clip(out[key], 0, 1)
    out["sm"] = np.minimum(out["sm"], np.clip(out["gr"] * 1.02, 0, 1))
    return out


def ramp(n, start, level, rise, rng, wobble=0.002):
    """Memory: zero until `start`, a rise of `rise` seconds, then flat with a small wobble (fraction)."""
    t = np.arange(n)
    m = np.clip((t - start) / max(rise, 1), 0, 1) * level
    return np.clip(m + np.where(m > 0, rng.normal(0, wobble, n), 0), 0, 1)


def blank_start(r, warm, rng, cpu_limit, disk=180.0):
    """The first `warm` seconds: imports, data set index, model load; the GPU does nothing yet."""
    for key in ("gr", "sm", "occ", "tensor", "dram", "fp64", "fp32", "fp16", "rx", "tx", "nvl"):
        r[key][:warm] = 0
    r["cpu"][:warm] = np.clip(rng.normal(1.1, 0.2, warm), 0.2, cpu_limit)
    r["disk"][:warm] = np.maximum(rng.normal(disk, disk / 4, warm), 0)
    r["iow"][:warm] = np.clip(rng.normal(0.15, 0.05, warm), 0, 1)
    r["cpuw"][:warm] = 0.02


def u(rng, lo, hi):
    return float(rng.uniform(lo, hi))


def compute(rng, seconds, tensor, sm, dram, occ=0.35, **more):
    return phase(seconds, 0.08, gr=1.0, sm=sm, occ=occ, tensor=tensor, dram=dram, cpu=more.pop("cpu", 1.2), **more)
