"""The earliest start and the reason why not, against looking at every second."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.earliest import counts_at, earliest_start
from scheduler.placement.explain import Why, why_not
from scheduler.placement.geometry import MAINTENANCE, Held, Window, free_count
from tests.unit.parts import A30, H100, ONE, SEVEN, THREE, TWO, gpu, hold
from tests.unit.test_placement import pools


@settings(max_examples=200, deadline=None)
@given(pools(), st.data())
def test_the_earliest_start_is_the_first_second_from_which_all_ranks_fit(pool, data):
    shapes, gpus = pool
    shape = data.draw(st.sampled_from(shapes))
    ranks, length = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 150))
    first = data.draw(st.integers(0, 100))
    last = first + data.draw(st.integers(0, 300))
    expected = next(
        (at for at in range(first, last + 1) if free_count(shape, gpus, Window(at, at + length)) >= ranks), None
    )
    assert earliest_start(shape, ranks, gpus, length, first, last, shapes) == expected


@settings(max_examples=200, deadline=None)
@given(pools(), st.data())
def test_counts_over_time_equal_counting_each_window_by_itself(pool, data):
    shapes, gpus = pool
    shape = data.draw(st.sampled_from(shapes))
    length, step = data.draw(st.integers(1, 150)), data.draw(st.integers(1, 90))
    moments = range(0, 400, step)
    expected = [free_count(shape, gpus, Window(at, at + length)) for at in moments]
    assert counts_at(shape, gpus, length, moments) == expected


def test_no_moment_asked_about_means_no_count():
    assert counts_at(ONE, [gpu(1)], 10, []) == []


def reason(shape, ranks, gpus, shapes=H100):
    return why_not(shape, ranks, gpus, Window(100, 200), shapes)


def test_a_pool_without_gpus_has_no_such_device():
    assert reason(ONE, 1, []).code == Why.NO_DEVICE


def test_a_profile_of_another_part_has_no_such_device():
    assert reason(SEVEN, 1, [gpu(1, slices=4)], A30).code == Why.NO_DEVICE


def test_more_ranks_than_empty_gpus_take_is_too_large_and_names_the_most():
    why = reason(SEVEN, 3, [gpu(1), gpu(2)])
    assert (why.code, why.evidence["at_most"], why.evidence["next_free_at"]) == (Why.TOO_LARGE, 2, None)


def closed(since, until):
    return Held(0, 8, since, until, MAINTENANCE)


def test_maintenance_is_the_reason_where_all_would_fit_without_it():
    why = reason(SEVEN, 2, [gpu(1, closed(150, 300)), gpu(2)])
    told = {key: why.evidence[key] for key in ("closed_at", "opens_at", "node_id", "next_free_at")}
    assert why.code == Why.MAINTENANCE
    assert told == {"closed_at": 150, "opens_at": 300, "node_id": gpu(1).node_id, "next_free_at": 300}


def test_maintenance_is_not_the_reason_where_it_makes_no_difference():
    assert reason(SEVEN, 2, [gpu(1, closed(150, 300)), gpu(2, hold(ONE, 0, 0, 500))]).code == Why.ALL_HELD
    assert reason(SEVEN, 1, [gpu(1, hold(SEVEN, 0, 0, 500), closed(250, 300))]).code == Why.ALL_HELD


def test_when_everything_is_held_the_reason_says_until_when():
    why = reason(ONE, 1, [gpu(1, hold(SEVEN, 0, 0, 500))])
    assert (why.code, why.evidence["free_slices"], why.evidence["next_free_at"]) == (Why.ALL_HELD, 0, 500)
    assert why.evidence["largest_free"] is None


def test_enough_slices_that_are_no_legal_span_are_called_fragmented():
    """Four slices are free, two and two: 3g.40gb needs 0-3 or 4-7."""
    gpus = [gpu(1, hold(TWO, 0, 0, 300), hold(TWO, 4, 0, 400))]
    why = reason(THREE, 1, gpus)
    assert why.code == Why.FRAGMENTED
    assert (why.evidence["free_slices"], why.evidence["size"], why.evidence["next_free_at"]) == (4, 4, 300)
    assert why.evidence["largest_free"] == "2g.20gb"


def test_a_gang_that_fits_in_part_is_told_how_many_fit():
    why = reason(THREE, 2, [gpu(1, hold(THREE, 4, 0, 250))])
    assert (why.code, why.evidence["fitting"], why.evidence["next_free_at"]) == (Why.TOO_FEW, 1, 250)
