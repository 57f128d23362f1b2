"""Late binding: whatever is booked and re-planned, nothing accepted is lost and no layout is illegal."""

import random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement import swapping
from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import MAINTENANCE, Shape, Window, free_count, free_starts
from scheduler.placement.replan import Admission, admit, improve
from scheduler.placement.trial import Move
from tests.unit.parts import FOUR, H100, ONE, ONE_ME, PARTS, SEVEN, THREE, TWO

ORIGIN = 20_000 * 86400
HOUR = 3600
AMPLE_SECONDS = 60.0


def calendar_of(gpus: int, slices: int = 8) -> Calendar:
    return Calendar([(number, number // 2, number % 2) for number in range(gpus)], slices, ORIGIN)


def hold(
    calendar: Calendar, key: int, gpu_id: int, start: int, shape: Shape, hours: tuple[int, int], movable=True
) -> None:
    since, until = ORIGIN + hours[0] * HOUR, ORIGIN + hours[1] * HOUR
    calendar.hold(key, gpu_id, start, start + shape.size, since, until, shape.name, movable)


def window(first: int, last: int) -> Window:
    return Window(ORIGIN + first * HOUR, ORIGIN + last * HOUR)


def book(calendar: Calendar, key: int, shape: Shape, during: Window, shapes=H100, movable=True, ranks=1) -> bool:
    """Admit and apply, as the portal does."""
    answer = admit(shape, ranks, calendar, during, shapes, deadline_seconds=AMPLE_SECONDS)
    if not isinstance(answer, Admission):
        return False
    apply(calendar, answer.moves)
    for one in answer.placements:
        assert free_starts(shape, calendar.view(one.gpu_id, during), during).count(one.start) == 1
        calendar.hold(key + one.rank, one.gpu_id, one.start, one.end, during.start, during.end, shape.name, movable)
    return True


def apply(calendar: Calendar, moves: tuple[Move, ...]) -> None:
    rows = {move.key: calendar.rows[move.key] for move in moves}
    assert all(row.movable for row in rows.values())
    for key in rows:
        calendar.drop(key)
    for move in moves:
        row = rows[move.key]
        assert move.end - move.start == row.end - row.start
        calendar.hold(move.key, move.gpu_id, move.start, move.end, row.since, row.until, row.shape, row.movable)


def assert_legal(calendar: Calendar, shapes: tuple[Shape, ...]) -> None:
    """Every row alone on a span that the driver reports, and no more of a shape than its GPU takes."""
    by_name = {shape.name: shape for shape in shapes}
    for row in calendar.rows.values():
        gpu_id, shape = calendar.gpus[row.position][0], by_name[row.shape]
        others = calendar.view(gpu_id, Window(row.since, row.until), without=[row.key])
        assert row.start in free_starts(shape, others, Window(row.since, row.until)), row


BOOKINGS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 30), st.integers(1, 14), st.sampled_from([True, True, True, False])),
    min_size=8,
    max_size=45,
)


@settings(max_examples=30, deadline=None)
@given(slices=st.sampled_from([8, 8, 4]), gpus=st.integers(1, 4), bookings=BOOKINGS)
def test_no_promise_is_broken_and_no_layout_is_illegal(slices, gpus, bookings):
    _keeps_every_promise(calendar_of(gpus, slices), PARTS[slices], bookings)


@pytest.mark.parametrize("seed", range(24))
def test_no_promise_is_broken_where_leases_reach_beyond_what_swaps_look_at(seed):
    """Crowds drawn evenly: what is drawn to be shrunk is too sparse to need a swap."""
    chance = random.Random(seed)
    lengths = chance.choices([(1, 14), (20, 60)], [2, 1], k=40)
    bookings = [
        (chance.randint(0, 20), chance.randint(0, 80), chance.randint(*hours), chance.random() < 0.75)
        for hours in lengths
    ]
    with patch.object(swapping, "FAR_SECONDS", 5 * HOUR):
        _keeps_every_promise(calendar_of(chance.randint(2, 4)), H100, bookings)


def _keeps_every_promise(calendar: Calendar, shapes: tuple[Shape, ...], bookings: list[tuple]) -> None:
    accepted: dict[int, tuple] = {}
    pinned: dict[int, tuple] = {}
    for number, (kind, first, hours, movable) in enumerate(bookings):
        shape, during = shapes[kind % len(shapes)], window(first, first + hours)
        before = dict(calendar.rows)
        if not book(calendar, number, shape, during, shapes, movable):
            assert calendar.rows == before
            continue
        row = calendar.rows[number]
        accepted[number] = (row.since, row.until, row.shape)
        if not movable:
            pinned[number] = (row.position, row.start)
        assert_legal(calendar, shapes)
    assert {key: (row.since, row.until, row.shape) for key, row in calendar.rows.items()} == accepted
    assert {key: (calendar.rows[key].position, calendar.rows[key].start) for key in pinned} == pinned


def test_what_is_tried_leaves_the_calendar_as_it_was():
    chance = random.Random(3)
    calendar = calendar_of(3)
    for number in range(60):
        first = chance.randint(0, 30)
        book(calendar, number, chance.choice(H100), window(first, first + chance.randint(1, 9)))
    rows, cells = dict(calendar.rows), calendar.cells.levels[0].masks.copy()
    for _ in range(20):
        first = chance.randint(0, 30)
        admit(chance.choice(H100), 1, calendar, window(first, first + 6), H100, deadline_seconds=AMPLE_SECONDS)
    assert calendar.rows == rows
    assert (calendar.cells.levels[0].masks == cells).all()


def test_the_re_plan_in_the_background_keeps_every_promise_and_goes_on_where_it_ended():
    chance = random.Random(5)
    calendar = calendar_of(4)
    for number in range(90):
        first = chance.randint(0, 30)
        book(calendar, number, chance.choice(H100), window(first, first + chance.randint(1, 9)), movable=number % 5 > 0)
    accepted = {key: (row.since, row.until, row.shape) for key, row in calendar.rows.items()}
    pinned = {key: (row.position, row.start) for key, row in calendar.rows.items() if not row.movable}
    for key in list(calendar.rows)[::3]:
        if key not in pinned:
            calendar.drop(key)
            del accepted[key]
    rows = dict(calendar.rows)
    first_moves = improve(calendar, H100, deadline_seconds=AMPLE_SECONDS, leases_most=20)
    assert calendar.rows == rows and first_moves
    reached = calendar.improved_until
    apply(calendar, first_moves)
    apply(calendar, improve(calendar, H100, deadline_seconds=AMPLE_SECONDS, leases_most=20))
    assert calendar.improved_until != reached
    assert_legal(calendar, H100)
    assert {key: (row.since, row.until, row.shape) for key, row in calendar.rows.items()} == accepted
    assert {key: (calendar.rows[key].position, calendar.rows[key].start) for key in pinned} == pinned


def test_no_time_is_no_move():
    calendar = two_small_ones_in_the_way(movable=True)
    assert improve(calendar, H100, deadline_seconds=0) == ()
    assert not admit(SEVEN, 1, calendar, window(0, 4), H100, deadline_seconds=0)


def two_small_ones_in_the_way(movable: bool) -> Calendar:
    """Slices for a whole GPU are free, but on two GPUs."""
    calendar = calendar_of(2)
    hold(calendar, 1, 0, 0, ONE, (0, 4), movable)
    hold(calendar, 2, 1, 0, ONE, (0, 4), movable)
    return calendar


def test_what_is_planned_gives_way_to_what_would_not_fit():
    calendar = two_small_ones_in_the_way(movable=True)
    answer = admit(SEVEN, 1, calendar, window(0, 4), H100, deadline_seconds=AMPLE_SECONDS)
    assert isinstance(answer, Admission) and len(answer.moves) == 1


def test_what_may_not_move_stays_and_the_refusal_says_that_capacity_is_not_the_reason():
    calendar = two_small_ones_in_the_way(movable=False)
    answer = admit(SEVEN, 1, calendar, window(0, 4), H100, deadline_seconds=AMPLE_SECONDS)
    assert not answer and answer.full_at is None


def test_two_gpus_that_are_free_in_turn_swap_what_follows():
    calendar = calendar_of(2)
    hold(calendar, 1, 0, 0, SEVEN, (5, 8))
    hold(calendar, 2, 1, 0, SEVEN, (0, 4))
    hold(calendar, 3, 1, 0, SEVEN, (7, 9))
    hold(calendar, 4, 0, 0, SEVEN, (0, 3))
    answer = admit(SEVEN, 1, calendar, window(3, 6), H100, deadline_seconds=AMPLE_SECONDS)
    assert isinstance(answer, Admission)
    assert [move.key for move in answer.moves] in ([1, 3], [2, 4])


def test_a_swap_is_no_way_out_where_one_may_not_move():
    calendar = calendar_of(2)
    hold(calendar, 1, 0, 0, SEVEN, (5, 8))
    hold(calendar, 2, 1, 0, SEVEN, (0, 4), movable=False)
    hold(calendar, 3, 1, 0, SEVEN, (7, 9), movable=False)
    hold(calendar, 4, 0, 0, SEVEN, (0, 3))
    assert not admit(SEVEN, 1, calendar, window(3, 6), H100, deadline_seconds=AMPLE_SECONDS)


@pytest.mark.parametrize(
    ("long", "short", "pinned", "far"),
    [((302, 330), (302, 307), (300, 301), (320, 325)), ((273, 301), (296, 301), (302, 303), (278, 283))],
)
@patch.object(swapping, "FAR_SECONDS", 5 * HOUR)
def test_a_swap_takes_nothing_along_to_where_nobody_looked(long, short, pinned, far):
    """The long lease would change sides, and meet there another that lies further off than swaps look."""
    calendar = calendar_of(2)
    hold(calendar, 1, 0, 0, SEVEN, long)
    hold(calendar, 2, 1, 0, SEVEN, pinned, movable=False)
    hold(calendar, 3, 1, 0, SEVEN, far)
    assert not book(calendar, 9, SEVEN, window(300, 303))
    hold(calendar, 1, 0, 0, SEVEN, short)
    assert book(calendar, 9, SEVEN, window(300, 303))
    assert_legal(calendar, H100)


def test_more_than_all_gpus_hold_is_refused_with_the_first_moment():
    calendar = calendar_of(2)
    hold(calendar, 1, 0, 0, FOUR, (2, 6))
    hold(calendar, 2, 1, 0, FOUR, (3, 6))
    answer = admit(FOUR, 1, calendar, window(0, 8), H100, deadline_seconds=AMPLE_SECONDS)
    assert not answer and answer.full_at == ORIGIN + 3 * HOUR
    assert answer.held["4g.40gb"] == 2


def test_gpus_in_maintenance_are_not_counted_as_capacity():
    calendar = calendar_of(2)
    calendar.hold(-1, 0, 0, 8, ORIGIN + HOUR, ORIGIN + 2 * HOUR, MAINTENANCE, False)
    hold(calendar, 1, 1, 0, FOUR, (0, 4))
    answer = admit(FOUR, 1, calendar, window(0, 4), H100, deadline_seconds=AMPLE_SECONDS)
    assert not answer and answer.full_at == ORIGIN + HOUR


def test_ranks_find_places_all_together_or_not_at_all():
    calendar = two_small_ones_in_the_way(movable=True)
    assert not book(calendar, 10, SEVEN, window(0, 4), ranks=2)
    assert book(calendar, 10, THREE, window(0, 4), ranks=2)
    assert book(calendar, 20, TWO, window(0, 4), ranks=2)
    assert_legal(calendar, H100)


def test_a_rank_that_is_bound_to_a_node_stays_on_it():
    calendar = two_small_ones_in_the_way(movable=True)
    other = Calendar([(0, 5, 0), (1, 6, 0)], 8, ORIGIN)
    for row in calendar.rows.values():
        other.hold(row.key, row.position, row.start, row.end, row.since, row.until, row.shape, True)
    answer = admit(SEVEN, 1, other, window(0, 4), H100, deadline_seconds=AMPLE_SECONDS, only_nodes={6})
    assert isinstance(answer, Admission) and answer.placements[0].gpu_id == 1


@pytest.mark.parametrize("shape", [ONE, ONE_ME])
def test_what_is_looked_away_from_makes_room(shape):
    calendar = calendar_of(1)
    hold(calendar, 1, 0, 0, SEVEN, (0, 4), movable=False)
    during = window(0, 4)
    assert not admit(shape, 1, calendar, during, H100, deadline_seconds=AMPLE_SECONDS)
    assert admit(shape, 1, calendar, during, H100, deadline_seconds=AMPLE_SECONDS, without=[1])
    assert free_count(shape, [calendar.view(0, during)], during) == 0
