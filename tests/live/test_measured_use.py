"""From samples to means and from means to sums: what was not measured is never a zero."""

import datetime as dt

import pytest
from django.utils import timezone

from agents.protocol import LeaseSample
from portal.live.buckets import Buckets, write_rows
from portal.live.models import UseBucket
from portal.live.rollups import forget_old_samples, roll_up
from tests.live.parts import a_lease, some_nodes

BEGIN = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


def fed(values: list[float | None], first_at: float = 0.5, step_seconds: float = 1.0, **others) -> Buckets:
    buckets = Buckets()
    for number, value in enumerate(values):
        at = BEGIN.timestamp() + first_at + number * step_seconds
        buckets.add(LeaseSample(lease_id=7, utilization=value, **others), at)
    return buckets


def finished(buckets: Buckets) -> list[UseBucket]:
    return buckets.take_finished(BEGIN.timestamp() + 3600)


def test_ten_samples_make_one_mean():
    (row,) = finished(fed([50.0] * 10, memory_used_mib=100, cpu_percent=250.0))
    assert (row.at, row.seconds, row.utilization, row.measured_seconds, row.busy_ms) == (BEGIN, 10, 50.0, 10, 5000)
    assert (row.memory_used_mib, row.memory_peak_mib, row.cpu_percent, row.tensor) == (100, 100, 250.0, None)


def test_what_is_not_measurable_counts_neither_as_zero_nor_as_measured():
    (row,) = finished(fed([80.0, None, None, 80.0, None]))
    assert (row.utilization, row.measured_seconds, row.busy_ms) == (80.0, 2, 1600)
    (nothing,) = finished(fed([None] * 10))
    assert (nothing.utilization, nothing.measured_seconds, nothing.busy_ms) == (None, 0, 0)


def test_a_true_zero_is_measured():
    (row,) = finished(fed([0.0] * 10))
    assert (row.utilization, row.measured_seconds, row.busy_ms) == (0.0, 10, 0)


def test_no_agent_can_measure_more_time_than_there_was():
    (row,) = finished(fed([100.0] * 500, step_seconds=0.01))
    assert (row.measured_seconds, row.busy_ms) == (6, 5990)


def test_a_gap_between_samples_is_not_filled():
    (row,) = finished(fed([100.0, 100.0], step_seconds=8.0))
    assert (row.measured_seconds, row.busy_ms) == (3, 3000)


def test_a_bucket_is_handed_out_once_and_only_when_it_is_over():
    buckets = fed([10.0] * 12)
    now = BEGIN.timestamp()
    assert buckets.take_finished(now + 9.9) == []
    assert [row.measured_seconds for row in buckets.take_finished(now + 12)] == [10]
    assert buckets.take_finished(now + 12) == []
    assert [row.measured_seconds for row in buckets.take_all()] == [2]


@pytest.fixture
def lease(db):
    return a_lease(some_nodes()[0])


def keep(lease, at: dt.datetime, seconds: int = 10, **values) -> UseBucket:
    return UseBucket.objects.create(lease=lease, at=at, seconds=seconds, **values)


def test_a_row_that_is_there_already_stays(lease):
    keep(lease, BEGIN, utilization=1.0)
    write_rows([UseBucket(lease=lease, at=BEGIN, seconds=10, utilization=99.0)])
    assert UseBucket.objects.get().utilization == 1.0


def test_five_minutes_are_summed_by_what_was_measured(lease):
    keep(lease, BEGIN, utilization=100.0, measured_seconds=1, busy_ms=1000, memory_used_mib=10, memory_peak_mib=15)
    later = BEGIN + dt.timedelta(seconds=10)
    keep(lease, later, utilization=0.0, measured_seconds=9, busy_ms=0, memory_used_mib=20, memory_peak_mib=90)
    keep(lease, BEGIN + dt.timedelta(seconds=20), utilization=None, tensor=None)
    assert roll_up(BEGIN + dt.timedelta(seconds=400)) == 1
    wide = UseBucket.objects.get(seconds=300)
    assert (wide.at, wide.utilization, wide.measured_seconds, wide.busy_ms) == (BEGIN, 10.0, 10, 1000)
    assert (wide.memory_used_mib, wide.memory_peak_mib, wide.tensor, wide.cpu_percent) == (15, 90, None, None)


def test_a_window_is_summed_once_it_has_settled_and_only_once(lease):
    keep(lease, BEGIN, measured_seconds=10, busy_ms=10)
    assert roll_up(BEGIN + dt.timedelta(seconds=330)) == 0
    assert roll_up(BEGIN + dt.timedelta(seconds=361)) == 1
    assert roll_up(BEGIN + dt.timedelta(seconds=361)) == 0


def test_a_window_in_which_nothing_could_be_measured_is_a_gap_and_not_a_zero(lease):
    keep(lease, BEGIN)
    roll_up(BEGIN + dt.timedelta(hours=1))
    assert UseBucket.objects.get(seconds=300).utilization is None


def test_a_long_silence_is_stepped_over(lease):
    for day in (0, 5):
        keep(lease, BEGIN + dt.timedelta(days=day), measured_seconds=10)
    now = BEGIN + dt.timedelta(days=6)
    assert [roll_up(now), roll_up(now), roll_up(now)] == [1, 1, 0]


def test_fine_means_are_forgotten_after_their_retention_and_sums_are_kept(lease, settings):
    settings.SAMPLE_RETENTION = dt.timedelta(days=14)
    now = timezone.now()
    for days, seconds in ((15, 10), (13, 10), (15, 300)):
        keep(lease, now - dt.timedelta(days=days), seconds)
    assert forget_old_samples(now) == 1
    assert sorted(UseBucket.objects.values_list("seconds", flat=True)) == [10, 300]
