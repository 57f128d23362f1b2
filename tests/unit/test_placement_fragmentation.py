"""What fragmentation costs, why a request was refused, and what moves would win."""

import random

import pytest

from scheduler.placement.calendar import Calendar
from scheduler.placement.defragment import plan_to_win
from scheduler.placement.fragmentation import Cause, cause_of, fragmentation, if_packed
from scheduler.placement.geometry import MAINTENANCE, Held, Window, free_count
from tests.unit.parts import A30, FOUR, H100, ONE, ONE_ME, SEVEN, THREE, TWO, gpu, hold
from tests.unit.test_placement_replan import HOUR, ORIGIN, apply, assert_legal, book, calendar_of, window
from tests.unit.test_placement_replan import hold as hold_on

WINDOW = Window(100, 200)


def room_of(shape, gpus, shapes=H100):
    (room,) = [room for room in fragmentation(gpus, WINDOW, shapes).rooms if room.shape == shape]
    return room


def test_two_small_ones_on_two_gpus_cost_a_whole_gpu():
    gpus = [gpu(1, hold(ONE, 0)), gpu(2, hold(ONE, 0))]
    room = room_of(SEVEN, gpus)
    assert (room.bookable, room.if_packed, room.lost) == (0, 1, 1)
    assert room_of(ONE, gpus).lost == 0


def test_what_follows_in_turn_is_not_counted_at_once():
    gpus = [gpu(1, hold(FOUR, 0, 0, 150)), gpu(2, hold(FOUR, 0, 150, 300))]
    room = room_of(SEVEN, gpus)
    assert (room.bookable, room.if_packed) == (0, 1)


def test_slices_that_no_shape_can_take_are_stranded():
    """Slice 7 is free, but a 1g may only begin at 0 to 6."""
    found = fragmentation([gpu(1, hold(FOUR, 0), hold(TWO, 4), hold(ONE, 6))], WINDOW, (ONE, TWO, FOUR, SEVEN))
    assert (found.slices, found.free, found.stranded) == (8, 1, 1)
    assert fragmentation([gpu(1, hold(FOUR, 0))], WINDOW, H100).stranded == 0


def test_a_gpu_in_maintenance_is_left_out_of_all_numbers():
    closed = gpu(1, Held(0, 8, 150, 400, MAINTENANCE))
    found = fragmentation([closed, gpu(2)], WINDOW, H100)
    assert (found.slices, found.free) == (8, 8)
    assert room_of(SEVEN, [closed, gpu(2)]).if_packed == 1


def test_the_largest_shape_comes_first_and_other_models_have_other_shapes():
    found = fragmentation([gpu(1, slices=4)], WINDOW, A30)
    assert [(room.shape.name, room.bookable, room.if_packed) for room in found.rooms] == [
        ("4g.24gb", 1, 1), ("2g.12gb", 2, 2), ("1g.6gb", 4, 4), ("1g.6gb+me", 1, 1)]  # fmt: skip


def test_a_gpu_takes_one_with_media_engines_however_it_is_packed():
    gpus = [gpu(1, hold(ONE_ME, 0), hold(TWO, 4)), gpu(2, hold(ONE, 0))]
    assert (room_of(ONE_ME, gpus).bookable, room_of(ONE_ME, gpus).if_packed) == (1, 1)
    assert room_of(FOUR, gpus).if_packed == 2


def test_no_gpu_is_no_room():
    found = fragmentation([], WINDOW, H100)
    assert found.slices == 0 and all(room.if_packed == 0 for room in found.rooms)


@pytest.mark.parametrize("seed", range(12))
def test_packed_anew_no_less_fits_than_as_things_lie_and_no_less_in_a_shorter_window(seed):
    chance = random.Random(seed)

    def held(slot):
        return hold(ONE, slot, *sorted(chance.sample(range(60, 260), 2)))

    gpus = [gpu(number, *map(held, chance.sample(range(7), 3))) for number in range(3)]
    for shape in (ONE, ONE_ME, TWO, THREE, SEVEN):
        assert if_packed(shape, gpus, WINDOW, H100) >= free_count(shape, gpus, WINDOW)
        assert if_packed(shape, gpus, Window(199, 200), H100) >= if_packed(shape, gpus, WINDOW, H100)


def cause(shape, ranks, gpus, **more):
    return cause_of(shape, ranks, gpus, WINDOW, H100, **more)


def test_the_cause_is_capacity_where_no_packing_would_do():
    found = cause(SEVEN, 1, [gpu(1, hold(FOUR, 0)), gpu(2, hold(FOUR, 0))])
    assert (found.cause, found.fitting, found.if_packed) == (Cause.CAPACITY, 0, 0)


def test_the_cause_is_layout_where_packing_anew_would_do():
    found = cause(SEVEN, 1, [gpu(1, hold(ONE, 0)), gpu(2, hold(ONE, 0))])
    assert (found.cause, found.fitting, found.if_packed) == (Cause.LAYOUT, 0, 1)


def test_the_cause_is_the_node_where_others_have_room():
    found = cause(SEVEN, 1, [gpu(1, hold(ONE, 0)), gpu(2, node_id=2)], only_nodes={1})
    assert (found.cause, found.fitting, found.elsewhere) == (Cause.NODE, 0, 1)


def test_a_plan_names_the_moves_that_win_what_was_asked_for_and_changes_nothing():
    calendar = calendar_of(3)
    for number in range(3):
        hold_on(calendar, number, number, 0, ONE, (0, 4))
    rows = dict(calendar.rows)
    plan = plan_to_win(SEVEN, 4, calendar, window(0, 4), H100, deadline_seconds=60)
    assert calendar.rows == rows
    assert (plan.bookable, plan.won, len(plan.moves)) == (0, 2, 2)
    apply(calendar, plan.moves)
    assert_legal(calendar, H100)
    assert book(calendar, 10, SEVEN, window(0, 4), ranks=2)


def test_what_may_not_move_wins_nothing():
    calendar = Calendar([(0, 0, 0), (1, 0, 1)], 8, ORIGIN)
    for number in range(2):
        hold_on(calendar, number, number, 0, ONE, (0, 4), movable=False)
    plan = plan_to_win(SEVEN, 1, calendar, Window(ORIGIN, ORIGIN + HOUR), H100, deadline_seconds=60)
    assert (plan.won, plan.moves) == (0, ())
