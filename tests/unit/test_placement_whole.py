"""Groups of whole GPUs: all or none, the smallest level that holds them, the fewest nodes, the best ways."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import Shape, Window
from scheduler.placement.nearness import fewest_nodes, spread_over
from scheduler.placement.placing import place
from scheduler.placement.topology import Level, Topology, distance_of, is_by_nvlink
from scheduler.placement.whole import FreeGpu, nearest, whole_gpus

FULL = Shape("full", 8, (0,), 7, 1)
WINDOW = Window(3600, 7200)
FREE = st.dictionaries(st.integers(1, 9), st.integers(0, 8), min_size=1, max_size=7)
RACKS = st.dictionaries(st.integers(1, 9), st.sampled_from(["", "a", "b"]))


def no_matter(_gpu):
    return 0.0


def most_of(nodes, free):
    return sum(free[node] for node in nodes)


@given(FREE, RACKS, st.integers(1, 40))
def test_a_group_takes_the_smallest_level_that_holds_it_and_there_the_fewest_nodes(free, racks, ranks):
    topology = Topology(racks)
    shares = spread_over(ranks, free, topology)
    if sum(free.values()) < ranks:
        assert shares == {}
        return
    assert sum(shares.values()) == ranks and all(0 < count <= free[node] for node, count in shares.items())
    groups = (some for many in range(1, len(free) + 1) for some in combinations(free, many))
    sets = [some for some in groups if most_of(some, free) >= ranks]
    best = min(sets, key=lambda some: (list(Level).index(topology.level(some)), len(some)))
    assert (topology.level(shares), len(shares)) == (topology.level(best), len(best))


@given(FREE, st.integers(1, 40))
def test_of_the_fewest_nodes_those_that_leave_the_least_over(free, ranks):
    if sum(free.values()) < ranks:
        return
    pick = fewest_nodes(ranks, {node: count for node, count in free.items() if count})
    over = min(most_of(some, free) for some in combinations(free, pick.nodes) if most_of(some, free) >= ranks)
    assert pick.total == over == sum(size * times for size, times in pick.sizes.items())


@given(FREE, RACKS, st.integers(1, 20), st.randoms())
def test_the_order_in_which_gpus_come_decides_nothing(free, racks, ranks, random):
    gpus = [FreeGpu(100 * node + index, node, index) for node, count in free.items() for index in range(count)]
    known, shuffled = Topology(racks), random.sample(gpus, len(gpus))
    assert whole_gpus(ranks, gpus, known, no_matter) == whole_gpus(ranks, shuffled, known, no_matter)


def test_a_node_of_no_rack_is_in_nobodys_rack():
    assert Topology().level([1, 2]) == Level.POOL
    assert Topology({1: "a", 2: "a"}).level([1, 2]) == Level.RACK
    assert Topology({1: "a", 2: "a"}).level([1, 2, 3]) == Level.POOL
    assert Topology().level([1, 1]) == Level.NODE


def test_a_whole_node_is_kept_where_two_smaller_ones_do_exactly():
    assert spread_over(12, {1: 8, 2: 6, 3: 6, 4: 4}, Topology()) == {2: 6, 3: 6}


def ways(*words):
    """Of GPUs of one node, as (one, other, word); both ways."""
    found = {}
    for one, other, word in words:
        found.setdefault(one, {})[other] = found.setdefault(other, {})[one] = distance_of(word)
    return found


def on_node(*gpus, node=1):
    return [FreeGpu(gpu, node, gpu) for gpu in gpus]


def test_of_one_node_the_best_joined_gpus_are_taken():
    told = ways((0, 1, "SYS"), (0, 2, "NODE"), (1, 3, "NV4"), (2, 3, "PIX"), (0, 3, "SYS"), (1, 2, "SYS"))
    known = Topology({}, told)
    assert [gpu.gpu_id for gpu in nearest(2, on_node(0, 1, 2, 3), known, no_matter)] == [1, 3]
    assert [gpu.gpu_id for gpu in nearest(2, on_node(0, 1, 2), known, no_matter)] == [0, 2]
    assert [gpu.gpu_id for gpu in nearest(2, on_node(0, 1, 5), known, no_matter)] == [0, 1]


def test_a_node_whose_free_gpus_are_joined_by_nvlink_goes_before_a_fuller_one_without():
    known = Topology({}, ways((0, 1, "SYS"), (10, 11, "NV4"), (12, 13, "NV4")))
    free = on_node(0, 1) + on_node(10, 11, 12, 13, node=2)
    assert [gpu.gpu_id for gpu in whole_gpus(2, free, known, no_matter)] == [10, 11]
    assert [gpu.gpu_id for gpu in whole_gpus(2, free, Topology(), no_matter)] == [0, 1]


def test_many_gpus_of_one_node_are_grown_from_the_best():
    gpus = list(range(20))
    known = Topology({}, ways(*((one, other, "NV4" if one // 10 == other // 10 else "SYS")
                                for one, other in combinations(gpus, 2))))  # fmt: skip
    taken = [gpu.gpu_id for gpu in nearest(10, on_node(*gpus[5:]), known, no_matter)]
    assert sorted(taken) == list(range(10, 20))


@pytest.mark.parametrize(
    ("word", "nvlink"), [("NV1", True), ("NV18", True), ("PIX", False), ("SYS", False), ("NVX", False)]
)
def test_words_of_agents_are_distances(word, nvlink):
    assert is_by_nvlink(distance_of(word)) == nvlink
    assert distance_of("NV18") < distance_of("NV4") < distance_of("PIX") < distance_of("SYS") < distance_of("?")


def test_on_the_calendar_a_group_stays_in_a_rack_and_what_is_looked_away_from_is_free():
    calendar = Calendar([(10 * node + index, node, index) for node in range(1, 5) for index in range(2)], 8, 0)
    calendar.topology = Topology({1: "a", 2: "b", 3: "b", 4: "a"})
    assert [one.gpu_id for one in place(FULL, 4, calendar, WINDOW, (FULL,))] == [10, 11, 40, 41]
    calendar.hold(1, 10, 0, 8, 0, 9000, "full", True)
    assert [one.gpu_id for one in place(FULL, 4, calendar, WINDOW, (FULL,))] == [20, 21, 30, 31]
    assert [one.gpu_id for one in place(FULL, 2, calendar, WINDOW, (FULL,), only_nodes={1}, without={1})] == [10, 11]
    assert place(FULL, 2, calendar, WINDOW, (FULL,), only_nodes={1}) == ()
    assert place(FULL, 8, calendar, WINDOW, (FULL,)) == ()
