"""Placing on demand: legal, never two on one slice, as ready as its GPUs are, and no slower on a large fleet."""

import heapq
import random
from collections import Counter

import pytest

from scheduler.placement.geometry import Placement, Shape, disjoint_count, span_mask
from scheduler.placement.ondemand import NEAR, OnDemand
from tests.unit.parts import A30, H100, ONE, ONE_ME, SEVEN, THREE, WHOLE

POOLS = {"H100": (H100, 8), "A30": (A30, 4), "no MIG": (WHOLE, 1)}
HOUR_SECONDS = 3600


def fleet(count: int, per_node: int = 8) -> list[tuple[int, int, int]]:
    return [(100 + number, number // per_node, number % per_node) for number in range(count)]


def walk(pool: OnDemand, shapes: tuple[Shape, ...], seed: int, steps: int = 1200):
    """(time, what is held as key -> (shape, placement), shape asked for, answer) at every step."""
    chance, now, running = random.Random(seed), 0, []
    held: dict[int, tuple[Shape, Placement]] = {}
    for key in range(steps):
        now += chance.randint(0, 90)
        while running and running[0][0] <= now:
            gone = heapq.heappop(running)[1]
            pool.release(gone)
            del held[gone]
        shape, until = chance.choice(shapes), now + 60 + int(chance.lognormvariate(7, 1.5))
        before = dict(held)
        answer = pool.place(key, shape.name, now, until)
        if answer:
            held[key] = (shape, answer)
            heapq.heappush(running, (until, key))
        yield before, shape, answer


@pytest.mark.parametrize("name", POOLS)
def test_a_place_is_legal_and_free_and_refused_only_where_no_gpu_has_one(name):
    shapes, slices = POOLS[name]
    gpus = fleet(5)
    answers = Counter()
    for held, shape, answer in walk(OnDemand(gpus, shapes, slices), shapes, seed=3):
        taken, same = Counter(), Counter()
        for other, place in held.values():
            taken[place.gpu_id] |= span_mask(place.start, other.size)
            same[place.gpu_id] += other == shape
        open_gpus = {
            gpu_id
            for gpu_id, _node, _index in gpus
            if disjoint_count(shape, slices, taken[gpu_id]) and same[gpu_id] < shape.max_count
        }
        answers[answer is None] += 1
        if answer is None:
            assert not open_gpus
        else:
            assert answer.gpu_id in open_gpus
            assert answer.start in shape.starts and answer.end == answer.start + shape.size
            assert not span_mask(answer.start, shape.size) & taken[answer.gpu_id]
    assert answers[True] > 50 and answers[False] > 50


def test_the_same_requests_give_the_same_plan_in_whatever_order_the_gpus_are_named():
    gpus = fleet(12)
    plans = [
        [answer for _held, _shape, answer in walk(OnDemand(order, H100, 8), H100, seed=9)]
        for order in (gpus, gpus[::-1])
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(("hours", "beside"), [(1, 100), (8, 101)])
def test_a_lease_goes_beside_the_one_that_ends_with_it(hours, beside):
    pool = OnDemand(fleet(2), H100, 8, typical_seconds=4 * HOUR_SECONDS)
    pool.place(1, "7g.80gb", 0, HOUR_SECONDS)
    assert pool.place(2, "3g.40gb", 0, 8 * HOUR_SECONDS).gpu_id == 101
    assert pool.place(3, "4g.40gb", 0, HOUR_SECONDS).gpu_id == 101
    pool.release(1)
    assert pool.place(4, "3g.40gb", 0, HOUR_SECONDS).gpu_id == 100
    pool.release(3)
    assert pool.place(5, "2g.20gb", 0, hours * HOUR_SECONDS).gpu_id == beside


def test_a_media_variant_is_placed_once_a_gpu_whatever_is_free():
    pool = OnDemand(fleet(2), H100, 8)
    places = [pool.place(key, ONE_ME.name, 0, HOUR_SECONDS) for key in range(3)]
    assert places[0].gpu_id != places[1].gpu_id and places[2] is None
    assert pool.place(9, ONE.name, 0, HOUR_SECONDS)
    pool.release(0)
    assert pool.place(10, ONE_ME.name, 0, HOUR_SECONDS).gpu_id == places[0].gpu_id


def test_a_gang_of_whole_gpus_stays_on_one_node_the_fullest_that_has_room():
    pool = OnDemand(fleet(24), H100, 8)
    assert {place.gpu_id for place in pool.place_gang(1, 3, 0, HOUR_SECONDS)} == {100, 101, 102}
    assert {place.gpu_id for place in pool.place_gang(2, 8, 0, HOUR_SECONDS)} == set(range(108, 116))
    assert {place.gpu_id for place in pool.place_gang(3, 5, 0, HOUR_SECONDS)} == set(range(103, 108))
    assert pool.place_gang(4, 9, 0, HOUR_SECONDS) == ()
    pool.release(2)
    assert len(pool.place_gang(5, 8, 0, HOUR_SECONDS)) == 8


def test_a_whole_gpu_for_one_breaks_no_free_node():
    pool = OnDemand(fleet(16), H100, 8)
    pool.place(1, SEVEN.name, 0, HOUR_SECONDS)
    pool.place(2, THREE.name, 0, HOUR_SECONDS)
    assert len(pool.place_gang(3, 8, 0, HOUR_SECONDS)) == 8


def steady(count: int) -> OnDemand:
    """A fleet that many came to and went from, as full as it gets."""
    pool, chance, live = OnDemand(fleet(count), H100, 8), random.Random(1), []
    for key in range(3 * count):
        if pool.place(key, chance.choice(H100).name, 0, chance.randint(60, 10**6)):
            live.append(key)
        if len(live) > 1.5 * count:
            pool.release(live.pop(chance.randrange(len(live))))
    return pool


def test_ten_times_the_gpus_are_not_ten_times_to_look_at():
    """A bound for each set of held slices that is met with, of which there are no more on a larger fleet."""
    looked_at = {}
    for count in (150, 1500):
        pool, chance = steady(count), random.Random(2)
        states = {pool.held(position) for position in range(count)}
        looked_at[count] = 0
        for _ in range(100):
            pool.place(-1, chance.choice(H100).name, 0, chance.randint(60, 10**6))
            assert pool.looked_at <= 2 * 2 * NEAR * len(states)
            looked_at[count] += pool.looked_at
            pool.release(-1)
    assert looked_at[1500] <= 5 * looked_at[150]


def test_the_half_of_fewer_starts_has_a_price_only_where_much_is_refused():
    """Beside a 3g the other half is the only one that a 4g could take; it is given away where 4g are refused anyway."""
    places = {}
    for refused in (0, 400):
        pool = OnDemand(fleet(2), H100, 8)
        for key in range(100, 100 + refused):
            pool.place(key, SEVEN.name, 0, HOUR_SECONDS)
        for key in range(100, 100 + refused):
            pool.release(key)
        pool.place(1, THREE.name, 0, 4 * HOUR_SECONDS)
        places[pool.refusals.price] = pool.place(2, THREE.name, 0, 8 * HOUR_SECONDS)
    assert [(place.gpu_id, place.start) for place in places.values()] == [(101, 4), (100, 0)]
    assert list(places) == [0, 4]


def test_what_is_refused_is_forgotten_as_others_are_served():
    pool = OnDemand(fleet(2), H100, 8)
    for key in range(40):
        pool.place(key, SEVEN.name, 0, HOUR_SECONDS)
    highest = pool.refusals.price
    pool.release(0)
    for key in range(100, 8100):
        pool.place(key, ONE.name, 0, HOUR_SECONDS)
        pool.release(key)
    assert (highest, pool.refusals.price) == (4, 0)
