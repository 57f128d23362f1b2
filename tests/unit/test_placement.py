"""Placement against brute force: what fits is placed on legal spans, what is refused does not fit."""

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import (
    GpuView,
    Held,
    Shape,
    Window,
    disjoint_count,
    free_count,
    free_starts,
    open_starts,
    span_mask,
)
from tests.unit.parts import FOUR, H100, ONE, ONE_ME, ONE_WIDE, PARTS, SEVEN, THREE, TWO, gpu, hold

WINDOW = Window(100, 200)


@st.composite
def held_on(draw, slices: int) -> tuple[Held, ...]:
    """What a GPU of that many slices may really hold: legal spans that share no slice at any moment."""
    kept: list[Held] = []
    for _ in range(draw(st.integers(0, 5))):
        shape = draw(st.sampled_from(PARTS[slices]))
        start = draw(st.sampled_from(shape.starts))
        since = draw(st.integers(0, 260))
        one = Held(start, start + shape.size, since, since + draw(st.integers(1, 120)), shape.name)
        rivals = [other for other in kept if other.touches(Window(one.since, one.until))]
        alone = shape.max_count > 1 or all(other.shape != shape.name for other in rivals)
        if alone and not any(other.mask & one.mask for other in rivals):
            kept.append(one)
    return tuple(kept)


@st.composite
def pools(draw) -> tuple[tuple[Shape, ...], list[GpuView]]:
    slices = draw(st.sampled_from(sorted(PARTS)))
    count = draw(st.integers(1, 3))
    return PARTS[slices], [GpuView(n, 1 + n // 2, n, slices, draw(held_on(slices))) for n in range(count)]


def most_by_trying(shape: Shape, view: GpuView, window: Window) -> int:
    """The most instances on one GPU, found by trying every subset and looking at every second."""
    seconds = range(window.start, window.end)
    busy = [0] * len(seconds)
    same = [0] * len(seconds)
    for one in view.held:
        for position, second in enumerate(seconds):
            if one.since <= second < one.until:
                busy[position] |= one.mask
                same[position] += one.shape == shape.name

    @cache
    def most(taken: int, left: int) -> int:
        return max(
            (
                1 + most(taken | mask, left - 1)
                for start in shape.starts
                if left and start + shape.size <= view.slices
                and not (mask := span_mask(start, shape.size)) & taken
                and not any(mask & slices for slices in busy)
            ),
            default=0,
        )  # fmt: skip

    return most(0, shape.max_count - max(same))


@settings(max_examples=300, deadline=None)
@given(pools(), st.data())
def test_a_gang_is_refused_exactly_when_trying_everything_finds_no_place(pool, data):
    shapes, gpus = pool
    shape = data.draw(st.sampled_from(shapes))
    most = sum(most_by_trying(shape, view, WINDOW) for view in gpus)
    assert free_count(shape, gpus, WINDOW) == most
    ranks = data.draw(st.integers(1, max(most, 1) + 1))
    assert len(place_gang(shape, ranks, gpus, WINDOW, shapes)) == (ranks if ranks <= most else 0)


@settings(max_examples=300, deadline=None)
@given(pools(), st.data())
def test_placements_are_legal_free_disjoint_and_do_not_depend_on_the_order_of_gpus(pool, data):
    shapes, gpus = pool
    shape = data.draw(st.sampled_from(shapes))
    ranks = data.draw(st.integers(1, 6))
    placements = place_gang(shape, ranks, gpus, WINDOW, shapes)
    views = {view.gpu_id: view for view in gpus}
    taken: dict[int, int] = {}
    for rank, placement in enumerate(placements):
        assert placement.rank == rank
        assert placement.start in free_starts(shape, views[placement.gpu_id], WINDOW)
        assert placement.end == placement.start + shape.size
        mask = span_mask(placement.start, shape.size)
        assert not mask & taken.get(placement.gpu_id, 0)
        taken[placement.gpu_id] = taken.get(placement.gpu_id, 0) | mask
    shuffled = data.draw(st.permutations(gpus))
    assert place_gang(shape, ranks, shuffled, WINDOW, shapes) == placements


@given(st.sets(st.integers(0, 8)), st.integers(1, 5), st.integers(0, 511))
def test_the_count_of_disjoint_spans_is_exact_for_any_table_of_starts(starts, size, mask):
    shape = Shape("odd", size, tuple(starts), 1, 64)
    possible = open_starts(shape, 9, mask)
    most = 0
    for choice in product((False, True), repeat=len(possible)):
        spans = [span_mask(start, size) for start, taken in zip(possible, choice, strict=True) if taken]
        union = 0
        for span in spans:
            union |= span
        if union.bit_count() == size * len(spans):
            most = max(most, len(spans))
    assert disjoint_count(shape, 9, mask) == most


def test_a_gang_on_overlapping_starts_does_not_block_itself():
    odd = Shape("odd", 2, (0, 1, 2), 1, 4)
    placements = place_gang(odd, 2, [gpu(1, slices=4)], WINDOW, (odd,))
    assert [(placement.start, placement.end) for placement in placements] == [(0, 2), (2, 4)]


def test_every_layout_of_one_gpu_leaves_exactly_the_legal_starts():
    """All 256 sets of held slices of an 8-slice part, for every profile."""
    for mask in range(256):
        held = tuple(Held(n, n + 1, 0, 1000, "1g.10gb") for n in range(8) if mask >> n & 1)
        view = GpuView(1, 1, 0, 8, held)
        for shape in (ONE_WIDE, TWO, THREE, FOUR, SEVEN):
            expected = tuple(start for start in shape.starts if not span_mask(start, shape.size) & mask)
            assert free_starts(shape, view, WINDOW) == expected


@pytest.mark.parametrize(
    ("shape", "start"),
    [(THREE, 4), (FOUR, 0), (ONE, 6), (ONE_WIDE, 6)],
    ids=lambda value: getattr(value, "name", value),
)
def test_on_an_empty_gpu_a_profile_sits_where_it_costs_the_others_least(shape, start):
    (placement,) = place_gang(shape, 1, [gpu(1)], WINDOW, H100)
    assert placement.start == start


def test_a_small_slice_fills_a_broken_gpu_and_keeps_the_whole_one():
    broken = gpu(2, hold(ONE, 0))
    (placement,) = place_gang(ONE, 1, [gpu(1), broken], WINDOW, H100)
    assert (placement.gpu_id, placement.start) == (2, 1)


def test_windows_that_touch_do_not_disturb_each_other():
    full = gpu(1, hold(SEVEN, 0, 0, 100), hold(SEVEN, 0, 200, 300))
    assert place_gang(SEVEN, 1, [full], WINDOW, H100)
    assert not place_gang(SEVEN, 1, [full], Window(99, 200), H100)
    assert not place_gang(SEVEN, 1, [full], Window(100, 201), H100)


def test_a_media_engine_profile_is_had_once_per_gpu():
    view = gpu(1, hold(ONE_ME, 6, 150, 160))
    assert not place_gang(ONE_ME, 1, [view], WINDOW, H100)
    assert place_gang(ONE, 1, [view], WINDOW, H100)
    assert not place_gang(ONE_ME, 2, [gpu(2)], WINDOW, H100)
    assert len(place_gang(ONE_ME, 2, [gpu(2), gpu(3)], WINDOW, H100)) == 2


def test_whole_gpus_stay_on_one_node_where_they_can_and_on_the_fullest_that_takes_them():
    gpus = [gpu(n, node_id=1) for n in range(4)] + [gpu(n, node_id=2) for n in (4, 5)]
    assert {placement.gpu_id for placement in place_gang(SEVEN, 2, gpus, WINDOW, H100)} == {4, 5}
    assert {placement.gpu_id for placement in place_gang(SEVEN, 3, gpus, WINDOW, H100)} < {0, 1, 2, 3}
    five = [placement.gpu_id for placement in place_gang(SEVEN, 5, gpus, WINDOW, H100)]
    assert five[:4] == [0, 1, 2, 3] and len(five) == 5


@pytest.mark.parametrize("ranks", [0, -1, 10**18])
def test_counts_that_make_no_sense_get_no_place(ranks):
    assert place_gang(ONE, ranks, [gpu(1)], WINDOW, H100) == ()
