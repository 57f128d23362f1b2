"""The demo's made-up past keeps the rules of the canvas."""

import datetime as dt

import pytest

from portal.demo.past import BUCKET_SECONDS, Device, PastUse, Shape, buckets_of, make_past, utilization_at

TODAY = dt.date(2026, 3, 30)
SHAPES = (Shape(1, 1, (0, 1, 2, 3, 4, 5, 6)), Shape(2, 2, (0, 2, 4)), Shape(3, 4, (0, 4)))
DEVICES = [Device(10, 8, SHAPES, ("a", "b")), Device(11, 8, (Shape(9, 8, (0,)),), ("b",))]


@pytest.fixture(scope="module")
def past() -> list[PastUse]:
    return make_past(DEVICES, TODAY)


def test_the_same_day_always_has_the_same_past(past):
    assert make_past(DEVICES, TODAY) == past
    assert len(past) > 50


def test_no_two_of_it_touch_the_same_slice_at_the_same_time(past):
    for number, one in enumerate(past):
        for other in past[number + 1 :]:
            apart_in_time = one.end <= other.start or other.end <= one.start
            apart_in_space = (
                one.gpu_id != other.gpu_id
                or one.first_slice + one.size <= other.first_slice
                or other.first_slice + other.size <= one.first_slice
            )
            assert apart_in_time or apart_in_space


def test_every_use_lies_on_a_legal_start_and_before_today(past):
    starts = {shape.profile_id: shape.starts for device in DEVICES for shape in device.shapes}
    midnight = dt.datetime.combine(TODAY, dt.time.min, tzinfo=dt.UTC)
    for use in past:
        assert use.first_slice in starts[use.profile_id]
        assert use.start < use.closed <= use.end <= midnight


def test_buckets_add_up_to_what_was_held(past):
    for use in past[:40]:
        buckets = list(buckets_of(use))
        assert sum(seconds for _, seconds in buckets) == int((use.closed - use.start).total_seconds())
        assert all(0 < seconds <= BUCKET_SECONDS for _, seconds in buckets)
        assert all(0 <= utilization_at(use, at) <= 100 for at, _ in buckets)
