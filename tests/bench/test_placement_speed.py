"""Placement on a large fleet: pure, one answer for the whole pool."""

import random
import time

from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import GpuView, Window
from tests.unit.parts import H100, ONE, THREE, hold

GPUS = 2_000
HOUR_SECONDS = 3600


def _fleet() -> list[GpuView]:
    chance = random.Random(7)
    return [
        GpuView(
            number,
            number // 8,
            number % 8,
            8,
            tuple(hold(ONE, slot, chance.randint(0, 8), chance.randint(9, 40)) for slot in range(chance.randint(0, 6))),
        )
        for number in range(GPUS)
    ]


def test_a_gang_finds_its_places_in_a_large_pool(record_figure):
    fleet = _fleet()
    began = time.monotonic()
    placements = place_gang(THREE, 16, fleet, Window(0, HOUR_SECONDS), H100)
    seconds = time.monotonic() - began
    assert len(placements) == 16
    record_figure(f"placing 16 x 3g on {GPUS} GPUs", 1000 * seconds, "ms")
