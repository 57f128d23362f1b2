"""Calendars of fleets of every size, filled by the engine's own placing, and the windows that are asked about."""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import Shape, Window
from scheduler.placement.placing import place
from tests.bench.calendar.requests import MIXES, ORIGIN, SHAPES, SLICES

GPUS_A_NODE = 8
DAY_SECONDS = 86400
CELL_SECONDS = 300
FILL = 0.7
SIGMA = 1.1
MIX = MIXES["small-heavy"]
# What is asked for begins and ends on half hours, lasts four hours in the middle and three days at most.
STEP_SECONDS = 1800
MEDIAN_STEPS, STEPS_MOST = 8, 144


@dataclass(frozen=True)
class World:
    """``fill``: the share of all slice-seconds of the horizon that is held."""

    calendar: Calendar
    days: int
    fill: float

    @property
    def leases(self) -> int:
        return len(self.calendar.rows)


@dataclass(frozen=True)
class Question:
    shape: Shape
    window: Window


def filled(gpus: int, leases: int, days: int, seed: int) -> World:
    """About so many leases, of lengths with which they hold 70 % of the slices of these days."""
    chance = np.random.default_rng(seed)
    horizon = days * DAY_SECONDS
    calendar = Calendar(
        [(number, number // GPUS_A_NODE, number % GPUS_A_NODE) for number in range(gpus)],
        SLICES,
        ORIGIN,
        CELL_SECONDS,
        horizon,
    )
    enough = FILL * SLICES * gpus * horizon
    share = np.array(MIX) / sum(MIX)
    mean_seconds = enough / leases / float(share @ np.array([shape.size for shape in SHAPES]))
    median = mean_seconds / math.exp(SIGMA**2 / 2)
    held, key = 0.0, 0
    while held < enough and key < 3 * leases:
        key += 1
        shape = SHAPES[int(chance.choice(len(SHAPES), p=share))]
        cells = max(round(chance.lognormal(math.log(median), SIGMA) / CELL_SECONDS), 1)
        first = int(chance.integers(1 - cells, horizon // CELL_SECONDS))
        last = min(first + cells, horizon // CELL_SECONDS)
        window = Window(ORIGIN + max(first, 0) * CELL_SECONDS, ORIGIN + last * CELL_SECONDS)
        for one in place(shape, 1, calendar, window, SHAPES):
            calendar.hold(key, one.gpu_id, one.start, one.end, window.start, window.end, shape.name, True)
            held += shape.size * window.seconds
    return World(calendar, days, held / (SLICES * gpus * horizon))


def questions(days: int, count: int, seed: int) -> list[Question]:
    chance = np.random.default_rng([seed, 4])
    shapes = chance.choice(len(SHAPES), count, p=np.array(MIX) / sum(MIX)).tolist()
    steps = np.clip(np.round(chance.lognormal(math.log(MEDIAN_STEPS), SIGMA, count)), 1, STEPS_MOST).astype(int)
    steps = np.minimum(steps, days * DAY_SECONDS // STEP_SECONDS)
    firsts = (chance.random(count) * (days * DAY_SECONDS // STEP_SECONDS - steps)).astype(int)
    return [
        Question(SHAPES[shape], Window(ORIGIN + first * STEP_SECONDS, ORIGIN + (first + length) * STEP_SECONDS))
        for shape, first, length in zip(shapes, firsts.tolist(), steps.tolist(), strict=True)
    ]
