"""The calendar against a list of intervals that is searched through: they say the same, whatever is done to them."""

import random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement import timeline
from scheduler.placement.calendar import Calendar, Row
from scheduler.placement.geometry import Window, span_mask
from scheduler.placement.timeline import DAY_SECONDS

ORIGIN = 20_000 * DAY_SECONDS + 12_345
GPUS = ((11, 2, 0), (7, 1, 1), (5, 1, 0))
HORIZON_SECONDS = 3 * DAY_SECONDS


class Intervals:
    """What the calendar must be: every question looks at every row."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int, int, int]] = {}

    def taken(self, gpu_id: int, window: Window) -> int:
        mask = 0
        for gpu, span, since, until in self.rows.values():
            if gpu == gpu_id and since < window.end and window.start < until:
                mask |= span
        return mask


def moments() -> st.SearchStrategy[int]:
    """Most in the horizon, some on the borders of cells and of days, where the horizon begins and ends, some far
    beyond."""
    near = st.integers(ORIGIN, ORIGIN + HORIZON_SECONDS)
    cells = near.map(lambda second: second // 300 * 300)
    days = st.integers(0, 6).map(lambda day: ORIGIN // DAY_SECONDS * DAY_SECONDS + day * DAY_SECONDS)
    return st.one_of(near, cells, days, st.integers(ORIGIN, ORIGIN + 60 * DAY_SECONDS))


def windows() -> st.SearchStrategy[tuple[int, int]]:
    """Some end, or begin, on a border rather than a length away from one."""
    lengths = st.one_of(st.integers(1, 900), st.sampled_from([300, 3600, 7200]), st.integers(1, 50 * DAY_SECONDS))
    onwards = st.tuples(moments(), lengths).map(lambda pair: (pair[0], sum(pair)))
    between = st.tuples(moments(), moments()).map(lambda pair: (min(pair), max(pair) + (pair[0] == pair[1])))
    return st.one_of(onwards, between)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(1, 12), st.sampled_from([5, 7, 11]), st.integers(0, 9), windows()),
        st.tuples(st.just("drop"), st.integers(1, 12)),
        st.tuples(st.just("advance"), st.one_of(st.integers(0, DAY_SECONDS), st.just(DAY_SECONDS))),
        st.tuples(st.just("ask"), windows()),
    ),
    min_size=5,
    max_size=40,
)


KINDS = pytest.mark.parametrize(
    ("slices", "cell_seconds", "coarser"), [(8, 300, True), (10, 1800, True), (4, 3600, False)]
)


@KINDS
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_the_calendar_equals_a_list_of_intervals(slices, cell_seconds, coarser, steps):
    with patch.multiple(timeline, PLAIN_GPUS_MOST=0 if coarser else 256, PLAIN_BYTES_MOST=0):
        _play(Calendar(GPUS, slices, ORIGIN, cell_seconds, HORIZON_SECONDS), steps)


@KINDS
@pytest.mark.parametrize("seed", range(6))
def test_the_calendar_equals_a_list_of_intervals_in_a_crowd(slices, cell_seconds, coarser, seed):
    """Drawn evenly: what is drawn to be shrunk is too sparse for leases that share an hour but no moment."""
    chance = random.Random(seed)
    units = [cell_seconds, 3600, 6 * 3600, DAY_SECONDS]

    def window() -> tuple[int, int]:
        begin = (
            ORIGIN // DAY_SECONDS * DAY_SECONDS
            + chance.randrange(4 * DAY_SECONDS) // (unit := chance.choice(units)) * unit
        )
        begin += chance.choice([0, 0, 0, 1, 299])
        return begin, begin + chance.choice([1, 299, cell_seconds, 3600, 5 * 3600, DAY_SECONDS, 60 * 3600])

    steps = []
    for _ in range(80):
        hold = ("hold", chance.randint(1, 14), chance.choice([5, 7]), chance.randint(0, 9), window())
        steps += [hold, ("drop", chance.randint(1, 14)) if chance.random() < 0.4 else ("ask", window())]
        if chance.random() < 0.05:
            steps.append(("advance", chance.choice([600, DAY_SECONDS // 2])))
    with patch.multiple(timeline, PLAIN_GPUS_MOST=0 if coarser else 256, PLAIN_BYTES_MOST=0):
        _play(Calendar(GPUS, slices, ORIGIN, cell_seconds, HORIZON_SECONDS), steps)


def _play(calendar: Calendar, steps: list[tuple]) -> None:
    model, now = Intervals(), ORIGIN
    for step in steps:
        match step:
            case "hold", key, gpu_id, start, (since, until):
                start %= calendar.slices
                end = min(start + 1 + key % 4, calendar.slices)
                calendar.hold(key, gpu_id, start, end, since, until, "x", True)
                model.rows[key] = (gpu_id, span_mask(start, end - start), since, until)
            case "drop", key:
                calendar.drop(key)
                model.rows.pop(key, None)
            case "advance", seconds:
                now += seconds
                calendar.advance(now)
        for _name, *asked in [step, *steps[:8]]:
            if isinstance(asked[-1], tuple):
                _same(calendar, model, Window(max(asked[-1][0], now), max(asked[-1][1], now + 1)))


def _same(calendar: Calendar, model: Intervals, window: Window) -> None:
    expected = [model.taken(gpu_id, window) for gpu_id in (5, 7, 11)]
    assert calendar.taken(window).tolist() == expected
    assert [calendar.taken_on(position, window) for position in range(3)] == expected
    _same_at_a_glance(calendar, window)
    met = calendar.register.key[calendar.register.meeting(window.start, window.end)].tolist()
    rows = {key for key, (*_, since, until) in model.rows.items() if since < window.end and window.start < until}
    assert sorted(met) == sorted(rows)
    first, last = calendar.census.inwards(
        max(window.start, calendar.cells.since), min(window.end, calendar.cells.until)
    )
    for cell in range(first, min(last, first + 3)):
        begin, end = cell * calendar.census.cell_seconds, (cell + 1) * calendar.census.cell_seconds
        held = sum(since <= begin and end <= until for _gpu, _mask, since, until in model.rows.values())
        assert calendar.census.of(["x"], cell, cell + 1).tolist() == [[held]]


def _same_at_a_glance(calendar: Calendar, window: Window) -> None:
    """A look at whole cells, at all GPUs or at two of them, sees what is taken in these and in the cells beside."""
    cells, seconds = calendar.cells, calendar.cells.cell_seconds
    since, until = window.start // seconds * seconds, -(-window.end // seconds) * seconds
    for begin, end in ((0, 3), (1, 3)):
        seen = cells.look(since, until, begin, end)
        if seen is None:
            assert since < cells.since or until > cells.until
            continue
        beside = [Window(since, until), Window(since - seconds, since), Window(until, until + seconds)]
        expected = [calendar.taken(one).astype(cells.dtype) for one in beside]
        if since == cells.since:
            expected[1][:] = 0
        if until == cells.until:
            expected[2][:] = 0
        assert [seen, *cells.beside(since, until, begin, end)] == [masks[begin:end].tobytes() for masks in expected]


def test_a_gpu_is_seen_with_what_ends_and_begins_just_beside_the_window():
    calendar = Calendar(GPUS, 8, ORIGIN)
    calendar.hold(1, 7, 0, 4, ORIGIN, ORIGIN + 50, "4g.40gb", True)
    calendar.hold(2, 7, 4, 8, ORIGIN + 90, ORIGIN + 95, "3g.40gb", True)
    calendar.hold(3, 7, 4, 8, ORIGIN + 97, ORIGIN + 99, "3g.40gb", True)
    view = calendar.view(7, Window(ORIGIN + 50, ORIGIN + 90))
    assert (view.node_id, view.index, view.slices) == (1, 1, 8)
    assert [held.since for held in view.held] == [ORIGIN, ORIGIN + 90]
    assert not calendar.taken(Window(ORIGIN + 50, ORIGIN + 90)).any()


def test_what_ended_before_today_is_forgotten_and_costs_nothing():
    calendar = Calendar(GPUS, 8, ORIGIN)
    calendar.hold(1, 7, 0, 4, ORIGIN, ORIGIN + 50, "4g.40gb", True)
    calendar.hold(2, 7, 0, 4, ORIGIN, ORIGIN + 5 * DAY_SECONDS, "4g.40gb", True)
    calendar.advance(ORIGIN + 2 * DAY_SECONDS)
    assert list(calendar.rows) == [2]
    calendar.drop(1)
    assert calendar.taken(Window(ORIGIN + 2 * DAY_SECONDS, ORIGIN + 3 * DAY_SECONDS)).tolist() == [0, 15, 0]


def test_a_gpu_that_is_not_here_holds_nothing():
    calendar = Calendar(GPUS, 8, ORIGIN)
    calendar.hold(1, 99, 0, 4, ORIGIN, ORIGIN + 50, "4g.40gb", True)
    assert calendar.rows == {}


def test_ten_thousand_gpus_with_a_hundred_thousand_leases_take_less_than_300_mb():
    """Counted, not allocated: the cells of the large calendar, and a row with its place on the shelves."""
    cells_bytes = Calendar([(0, 0, 0)], 8, ORIGIN).cells.nbytes * 10_000
    row = Row(1, 1, 1, 1, 1, ORIGIN, ORIGIN + 1, "x", True)
    assert cells_bytes + 100_000 * (row.__sizeof__() + 500) < 300e6
