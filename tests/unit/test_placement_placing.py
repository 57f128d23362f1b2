"""Placing on the calendar keeps the contract of placing on views: all ranks on free legal spans, or none that fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import GpuView, Shape, Window, free_count, free_starts, span_mask
from scheduler.placement.placing import place
from tests.unit.parts import FOUR, H100, ONE, ONE_ME, SEVEN, THREE, TWO
from tests.unit.test_placement import pools

ORIGIN = 20_000 * 86400
WINDOW = Window(ORIGIN + 100, ORIGIN + 200)


def calendar_of(views: list[GpuView], slices: int, cell_seconds: int) -> Calendar:
    calendar = Calendar([(view.gpu_id, view.node_id, view.index) for view in views], slices, ORIGIN, cell_seconds)
    key = 0
    for view in views:
        for held in view.held:
            key += 1
            calendar.hold(
                key, view.gpu_id, held.start, held.end, ORIGIN + held.since, ORIGIN + held.until, held.shape, True
            )
    return calendar


@pytest.mark.parametrize("cell_seconds", [300, 100])
@settings(max_examples=120, deadline=None)
@given(pool=pools(), data=st.data())
def test_all_ranks_get_free_legal_spans_or_none_fits(cell_seconds, pool, data):
    """With cells of 100 s the window begins and ends with cells, and a glance decides."""
    shapes, views = pool
    shape = data.draw(st.sampled_from(shapes))
    ranks = data.draw(st.integers(1, 4))
    calendar = calendar_of(views, views[0].slices, cell_seconds)
    seen = {view.gpu_id: calendar.view(view.gpu_id, WINDOW) for view in views}
    placements = place(shape, ranks, calendar, WINDOW, shapes)
    assert bool(placements) == (free_count(shape, seen.values(), WINDOW) >= ranks)
    taken = {gpu_id: 0 for gpu_id in seen}
    for rank, one in enumerate(placements):
        assert one.rank == rank and one.start in free_starts(shape, seen[one.gpu_id], WINDOW)
        assert not taken[one.gpu_id] & span_mask(one.start, shape.size)
        taken[one.gpu_id] |= span_mask(one.start, shape.size)


def three_gpus() -> Calendar:
    return Calendar([(7, 2, 0), (5, 1, 1), (6, 1, 0)], 8, ORIGIN)


def test_the_first_gpu_of_the_first_node_comes_first():
    (one,) = place(ONE, 1, three_gpus(), WINDOW, H100)
    assert one.gpu_id == 6


def test_a_3g_goes_to_the_right_half_where_a_4g_cannot_follow():
    (one,) = place(THREE, 1, three_gpus(), WINDOW, H100)
    assert one.start == 4


def test_a_window_is_put_where_another_lease_ends_when_it_begins():
    calendar = three_gpus()
    calendar.hold(1, 5, 0, 4, ORIGIN, WINDOW.start, FOUR.name, True)
    assert place(FOUR, 1, calendar, WINDOW, H100)[0].gpu_id == 5


HOURS = Window(ORIGIN + 3600, ORIGIN + 7200)


@pytest.mark.parametrize(("shape", "first_free"), [(ONE, 700), (SEVEN, 700), (THREE, 3)])
def test_a_glance_finds_the_only_gpu_with_room_among_many(shape, first_free):
    calendar = Calendar([(number, number // 8, number % 8) for number in range(900)], 8, ORIGIN)
    for number in range(900):
        if number != first_free:
            calendar.hold(number, number, 0, 8, HOURS.start, HOURS.end, SEVEN.name, True)
    assert [one.gpu_id for one in place(shape, 1, calendar, HOURS, H100)] == [first_free]
    calendar.hold(first_free, first_free, 0, 8, HOURS.start, HOURS.end, SEVEN.name, True)
    assert place(shape, 1, calendar, HOURS, H100) == ()


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_glance_prefers_what_it_touches_in_time(side):
    calendar = three_gpus()
    since, until = (ORIGIN, HOURS.start) if side == "before" else (HOURS.end, HOURS.end + 600)
    calendar.hold(1, 7, 4, 8, since, until, THREE.name, True)
    (one,) = place(THREE, 1, calendar, HOURS, H100)
    assert (one.gpu_id, one.start) == (7, 4)


def test_small_shapes_come_from_the_first_gpu_and_whole_gpus_from_the_last():
    assert place(ONE, 1, three_gpus(), HOURS, H100)[0].gpu_id == 6
    assert place(SEVEN, 1, three_gpus(), HOURS, H100)[0].gpu_id == 7


def test_only_the_nodes_asked_for_are_looked_at():
    assert place(SEVEN, 1, three_gpus(), WINDOW, H100, only_nodes={2})[0].gpu_id == 7
    assert place(SEVEN, 2, three_gpus(), WINDOW, H100, only_nodes={2}) == ()


def test_what_is_looked_away_from_counts_as_free():
    calendar = three_gpus()
    for key, gpu_id in enumerate((5, 6, 7)):
        calendar.hold(key, gpu_id, 0, 8, ORIGIN, WINDOW.end, SEVEN.name, True)
    assert place(TWO, 1, calendar, WINDOW, H100) == ()
    assert place(TWO, 1, calendar, WINDOW, H100, without=[1])[0].gpu_id == 6


def test_whole_gpus_of_a_gang_stay_on_one_node():
    assert {one.gpu_id for one in place(SEVEN, 2, three_gpus(), WINDOW, H100)} == {5, 6}


def test_a_gpu_takes_one_with_media_engines_at_once():
    calendar = three_gpus()
    calendar.hold(1, 6, 0, 1, ORIGIN, WINDOW.end, ONE_ME.name, True)
    assert {one.gpu_id for one in place(ONE_ME, 2, calendar, WINDOW, H100)} == {5, 7}
    assert place(ONE_ME, 3, calendar, WINDOW, H100) == ()
    assert place(ONE_ME, 3, calendar, WINDOW, H100, without=[1])
    assert place(ONE_ME, 1, calendar, WINDOW, H100, without=[1], only_nodes={2})[0].gpu_id == 7


def test_gpus_of_ten_equal_shares_are_placed_too():
    share = Shape("share", 1, tuple(range(10)), 1, 10)
    calendar = Calendar([(1, 1, 0)], 10, ORIGIN)
    assert len(place(share, 10, calendar, WINDOW, [share])) == 10
    assert place(share, 11, calendar, WINDOW, [share]) == ()
