"""The ledger's sums by day: every entry once, late ones too; the database keeps them; what differs is found."""

import datetime as dt
import io
import logging

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from portal.ledger.models import DailySum, SumBatch, UnsummedEntry
from portal.ledger.sums import compare, rebuild, sum_up
from portal.reservations.models import LeaseState
from scheduler.tasks.sums import check_sums
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_reservation, record, window

pytestmark = pytest.mark.django_db
MIDNIGHT = dt.datetime(2026, 11, 17, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
HOURS = 3600


@pytest.fixture
def lease_of():
    _root, _team, project = make_org()
    pool = make_pool_with_gpus("H100", gpus=1)

    def make(start: dt.datetime, hours: float, profile: str = "1g.10gb"):
        place = (pool.gpus.get(), 0)
        during = window(start, hours)
        return make_reservation(
            project, pool, profile, during, places=(place,), lease_state=LeaseState.ENDED
        ).leases.get()

    return make


def held(lease, start: dt.datetime, end: dt.datetime) -> None:
    record(lease, "opened", start)
    record(lease, "closed", end)


def by_day() -> dict[dt.date, int]:
    found: dict[dt.date, int] = {}
    for row in DailySum.objects.all():
        found[row.day] = found.get(row.day, 0) + row.slice_seconds
    return found


def corrupt(sql: str) -> None:
    """Change what the database would refuse to change."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE ledger_dailysum DISABLE TRIGGER ledger_append_only_sums")
        cursor.execute(sql)
        cursor.execute("ALTER TABLE ledger_dailysum ENABLE TRIGGER ledger_append_only_sums")


def test_a_lease_over_midnight_is_summed_into_both_days_by_its_weight(lease_of):
    held(lease_of(MIDNIGHT - HOUR, 3, "2g.20gb"), MIDNIGHT - HOUR, MIDNIGHT + 2 * HOUR)
    assert sum_up(MIDNIGHT + 30 * HOUR) == 1
    assert by_day() == {dt.date(2026, 11, 16): 2 * HOURS, dt.date(2026, 11, 17): 4 * HOURS}
    assert sum_up(MIDNIGHT + 30 * HOUR) == 0
    assert not UnsummedEntry.objects.exists()


def test_a_day_is_summed_once_it_is_over_or_when_much_waits(lease_of):
    held(lease_of(MIDNIGHT, 1), MIDNIGHT, MIDNIGHT + HOUR)
    assert sum_up(MIDNIGHT + 23 * HOUR) == 0
    assert sum_up(MIDNIGHT + 23 * HOUR, waiting_most=0) == 1
    held(lease_of(MIDNIGHT + 2 * HOUR, 1), MIDNIGHT + 2 * HOUR, MIDNIGHT + 3 * HOUR)
    assert sum_up(MIDNIGHT + 24 * HOUR) == 1
    assert by_day() == {dt.date(2026, 11, 17): 2 * HOURS}
    assert SumBatch.objects.count() == 2


def test_what_is_open_waits_and_what_comes_late_is_added_to_its_old_day(lease_of):
    open_one, late = lease_of(MIDNIGHT - 50 * HOUR, 2), lease_of(MIDNIGHT - 40 * HOUR, 2)
    record(open_one, "opened", MIDNIGHT - 50 * HOUR)
    held(late, MIDNIGHT - 40 * HOUR, MIDNIGHT - 38 * HOUR)
    sum_up(MIDNIGHT)
    assert by_day() == {dt.date(2026, 11, 15): 2 * HOURS}
    record(late, "corrected", MIDNIGHT - 40 * HOUR, seconds=-600)
    record(open_one, "closed", MIDNIGHT - 49 * HOUR)
    assert sum_up(MIDNIGHT) == 2
    assert by_day() == {dt.date(2026, 11, 14): HOURS, dt.date(2026, 11, 15): 2 * HOURS - 600}
    assert compare().agrees


def test_a_close_that_is_written_before_its_opening_is_summed_once_both_are_there(lease_of):
    lease = lease_of(MIDNIGHT - 3 * HOUR, 1)
    record(lease, "closed", MIDNIGHT - 2 * HOUR)
    assert sum_up(MIDNIGHT) == 0
    record(lease, "opened", MIDNIGHT - 3 * HOUR)
    assert sum_up(MIDNIGHT) == 1
    assert by_day() == {dt.date(2026, 11, 16): HOURS}


def test_part_seconds_fall_into_the_second_they_lie_in(lease_of):
    half = SECOND / 2
    held(lease_of(MIDNIGHT - HOUR, 2), MIDNIGHT - half, MIDNIGHT + half)
    sum_up(MIDNIGHT + 24 * HOUR)
    assert by_day() == {dt.date(2026, 11, 16): 1}


@pytest.mark.parametrize("table", ["ledger_dailysum", "ledger_sumbatch"])
@pytest.mark.parametrize("change", ["UPDATE {} SET id = id + 1000", "DELETE FROM {}"])
def test_the_database_refuses_to_change_or_remove_a_sum(lease_of, table, change):
    held(lease_of(MIDNIGHT - HOUR, 1), MIDNIGHT - HOUR, MIDNIGHT)
    sum_up(MIDNIGHT + 24 * HOUR)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change.format(table))


@pytest.mark.case("Q-03", "Q-12")
@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE ledger_dailysum SET slice_seconds = slice_seconds - 60",
        "DELETE FROM ledger_dailysum",
        "INSERT INTO ledger_dailysum (batch_id, day, tenant_id, pool_id, slice_seconds, entries)"
        " SELECT batch_id, day + 1, tenant_id, pool_id, 60, entries FROM ledger_dailysum",
        "UPDATE ledger_dailysum SET entries = '{}'",
        "DELETE FROM ledger_unsummedentry",
        "INSERT INTO ledger_unsummedentry (entry_id, lease_id, kind)"
        " SELECT id, lease_id, kind FROM ledger_ledgerentry ON CONFLICT DO NOTHING",
    ],
)
def test_a_sum_that_was_tampered_with_is_found_and_made_anew(lease_of, harm, caplog):
    held(lease_of(MIDNIGHT - 3 * HOUR, 2), MIDNIGHT - 3 * HOUR, MIDNIGHT - HOUR)
    sum_up(MIDNIGHT)
    record(lease_of(MIDNIGHT, 2), "opened", MIDNIGHT)
    assert compare().agrees
    corrupt(harm)
    with caplog.at_level(logging.ERROR):
        assert check_sums() >= 1
    assert caplog.records
    with pytest.raises(CommandError, match="differ"):
        call_command("ledger_rebuild", "--check", stdout=io.StringIO())
    call_command("ledger_rebuild", stdout=io.StringIO())
    assert compare().agrees
    assert SumBatch.objects.latest("id").rebuilt


@pytest.mark.case("Q-12")
def test_a_difference_names_the_day_the_tenant_what_is_expected_and_what_is_found(lease_of):
    lease = lease_of(MIDNIGHT - 3 * HOUR, 2)
    held(lease, MIDNIGHT - 3 * HOUR, MIDNIGHT - HOUR)
    sum_up(MIDNIGHT)
    corrupt("UPDATE ledger_dailysum SET slice_seconds = 60")
    said = io.StringIO()
    call_command("ledger_rebuild", stdout=said)
    tenant, pool = lease.reservation.tenant_id, lease.reservation.pool_id
    assert f"2026-11-16 tenant {tenant} pool {pool}: expected 7200, found 60" in said.getvalue()
    call_command("ledger_rebuild", "--check", stdout=(said := io.StringIO()))
    assert "agree" in said.getvalue()


def test_rebuilding_voids_the_batches_before_and_keeps_their_rows(lease_of):
    for hour in (9, 5):
        held(lease_of(MIDNIGHT - hour * HOUR, 1), MIDNIGHT - hour * HOUR, MIDNIGHT - (hour - 1) * HOUR)
        sum_up(MIDNIGHT)
    assert rebuild() == 2
    newest = SumBatch.objects.latest("id")
    assert DailySum.objects.count() == 3
    assert [row.slice_seconds for row in newest.sums.all()] == [2 * HOURS]
    assert compare().agrees
