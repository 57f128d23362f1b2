"""Whatever is booked, and moved, is a layout that the driver accepts: of every model, with its media variants."""

import random

import pytest

from agents.drivers.simulator.layout import free_spans
from agents.drivers.simulator.models import GpuModel, load_models
from agents.drivers.simulator.node import Gpu, GpuInstance
from scheduler.placement.calendar import Calendar
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import Shape, Window
from scheduler.placement.ondemand import OnDemand
from scheduler.placement.policies import POLICIES, Fleet
from scheduler.placement.replan import Admission, admit, improve
from tests.unit.test_placement_replan import AMPLE_SECONDS, HOUR, ORIGIN, apply

MODELS = {key: model for key, model in load_models().items() if model.profiles}


def shapes_of(model: GpuModel) -> tuple[Shape, ...]:
    return tuple(
        Shape(one.name, one.spans[0][1], tuple(start for start, _ in one.spans), one.slices, one.max_count)
        for one in model.profiles
    )


def refused_by_the_driver(model: GpuModel, instances: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Of (profile, start, end), made one after the other on one GPU."""
    gpu, refused = Gpu(index=0, uuid="GPU-1", model=model.key, pci_bus_id=""), []
    for name, start, end in instances:
        profile = next(one for one in model.profiles if one.name == name)
        if (start, end - start) not in free_spans(model, gpu, profile):
            refused.append((name, start, end))
            continue
        gpu.instances.append(GpuInstance(start, profile.profile_id, start, end - start, serial=start))
    return refused


def assert_the_driver_accepts(model: GpuModel, calendar: Calendar) -> None:
    """At the begin of every lease, which is when instances are made."""
    for moment in sorted({row.since for row in calendar.rows.values()}):
        for position in range(len(calendar.gpus)):
            held = sorted(calendar.rows_on(position, moment, moment + 1))
            assert refused_by_the_driver(model, [(row.shape, row.start, row.end) for row in held]) == [], moment


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("key", MODELS)
def test_the_driver_accepts_what_is_planned_and_replanned(key, seed):
    model, chance = MODELS[key], random.Random(seed)
    shapes = shapes_of(model)
    calendar = Calendar([(number, number // 2, number % 2) for number in range(3)], model.memory_slices, ORIGIN)
    refused = 0
    for number in range(80):
        first, shape = chance.randint(0, 30), chance.choice(shapes)
        during = Window(ORIGIN + first * HOUR, ORIGIN + (first + chance.randint(1, 12)) * HOUR)
        answer = admit(shape, chance.choice([1, 1, 2]), calendar, during, shapes, deadline_seconds=AMPLE_SECONDS)
        if not isinstance(answer, Admission):
            refused += 1
            continue
        apply(calendar, answer.moves)
        for one in answer.placements:
            key_of = 2 * number + one.rank
            calendar.hold(key_of, one.gpu_id, one.start, one.end, during.start, during.end, shape.name, True)
    apply(calendar, improve(calendar, shapes, deadline_seconds=AMPLE_SECONDS))
    assert_the_driver_accepts(model, calendar)
    assert refused > 5 and len(calendar.rows) > 20


@pytest.mark.parametrize("key", MODELS)
def test_the_driver_accepts_what_is_placed_on_demand_and_by_views(key):
    model, chance = MODELS[key], random.Random(7)
    shapes = shapes_of(model)
    for _ in range(60):
        pool = OnDemand([(1, 1, 0)], shapes, model.memory_slices)
        calendar = Calendar([(1, 1, 0)], model.memory_slices, ORIGIN)
        window, placed = Window(ORIGIN, ORIGIN + HOUR), []
        for number in range(10):
            shape = chance.choice(shapes)
            if one := pool.place(number, shape.name, 0, HOUR):
                placed.append((shape.name, one.start, one.end))
            for other in place_gang(shape, 1, [calendar.view(1, window)], window, shapes):
                calendar.hold(number, 1, other.start, other.end, window.start, window.end, shape.name, True)
        assert refused_by_the_driver(model, placed) == []
        assert_the_driver_accepts(model, calendar)


@pytest.mark.parametrize("name", ["berth", "first-fit"])
@pytest.mark.parametrize("key", MODELS)
def test_media_engines_are_given_once_a_gpu_whatever_the_size(key, name):
    """On an A30 1g.6gb+me and 2g.12gb+me want the same engines."""
    shapes = shapes_of(MODELS[key])
    media = [shape.name for shape in shapes if "+me" in shape.name]
    policy = POLICIES[name](Fleet(((1, 1, 0), (2, 1, 1)), shapes, MODELS[key].memory_slices))
    begun = [policy.place(number, shape, 1, 0, HOUR) for number, shape in enumerate([*media, *media, *media])]
    assert sum(begun) == (2 if media else 0)
