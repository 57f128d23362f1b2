"""An entry that commits late, with a lower number than others that are summed already, is summed all the same."""

import datetime as dt
import threading

import pytest
from django.db import connection, transaction

from portal.ledger.models import DailySum
from portal.ledger.sums import compare, sum_up
from portal.reservations.models import LeaseState
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_reservation, record, window

pytestmark = pytest.mark.django_db(transaction=True)
NOON = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
LATER = NOON + 48 * HOUR


def lease_at(tenant, pool, start: dt.datetime):
    place = (pool.gpus.get(), 0)
    return make_reservation(
        tenant, pool, "1g.10gb", window(start), places=(place,), lease_state=LeaseState.ENDED
    ).leases.get()


def close_late(lease, written: threading.Event, go: threading.Event) -> None:
    try:
        with transaction.atomic():
            record(lease, "closed", NOON + HOUR)
            written.set()
            assert go.wait(20)
    finally:
        connection.close()


@pytest.mark.case("Q-03")
def test_an_entry_that_commits_after_a_later_one_was_summed_is_not_lost():
    root, *_ = make_org()
    pool = make_pool_with_gpus("H100", gpus=1)
    slow, quick = lease_at(root, pool, NOON), lease_at(root, pool, NOON + 3 * HOUR)
    record(slow, "opened", NOON)
    written, go = threading.Event(), threading.Event()
    late = threading.Thread(target=close_late, args=(slow, written, go))
    late.start()
    try:
        assert written.wait(20)
        record(quick, "opened", NOON + 3 * HOUR)
        record(quick, "closed", NOON + 4 * HOUR)
        assert sum_up(LATER) == 1
    finally:
        go.set()
        late.join()
    assert sum_up(LATER) == 1
    assert sorted(DailySum.objects.values_list("slice_seconds", flat=True)) == [3600, 3600]
    assert compare().agrees


def test_two_passes_at_once_sum_each_entry_once(race):
    root, *_ = make_org()
    pool = make_pool_with_gpus("H100", gpus=1)
    for hour in range(0, 20, 2):
        lease = lease_at(root, pool, NOON + hour * HOUR)
        record(lease, "opened", NOON + hour * HOUR)
        record(lease, "closed", NOON + (hour + 1) * HOUR)
    assert sorted(race(lambda _number: str(sum_up(LATER)), 4)) == ["0", "0", "0", "10"]
    assert sum(DailySum.objects.values_list("slice_seconds", flat=True)) == 10 * 3600
    assert compare().agrees
