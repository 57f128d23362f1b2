"""The made-up year, small: every row that should agree with another does, and the same seed gives the same year."""

import datetime as dt
import zoneinfo
from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.db.models import Count, F, Sum

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.demo.year import RESERVATIONS, seed_year
from portal.demo.year_machines import FLEET, facts_of_the_fleet
from portal.inventory.models import Gpu, Pool, Profile
from portal.ledger.folding import Fact, days_of, seconds_by_day, stretches
from portal.ledger.models import LedgerEntry
from portal.live.models import UseBucket
from portal.quotas.models import Quota
from portal.quotas.tree import check_tree
from portal.reservations.models import LIVE, EndReason, Lease, Reservation, Series, State
from portal.reservations.selectors import peak_weight_held
from portal.reservations.series_dates import Clock
from portal.reservations.spending import budget_statuses
from portal.tenants.models import Membership, Role, Tenant
from tests.factories import window

pytestmark = pytest.mark.django_db
SCALE = 0.05


@pytest.fixture(scope="module")
def now() -> dt.datetime:
    """Always the same Monday, so that the year is the same too."""
    return dt.datetime(2026, 11, 16, 10, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def year(django_db_setup, django_db_blocker, now) -> Iterator[dict[str, int]]:
    """One year for all tests, in a transaction that is never committed; they only look at it."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield seed_year(seed=3, scale=SCALE, now=now)
        transaction.set_rollback(True)


def test_the_year_is_as_large_as_it_says(year):
    assert year["reservations"] == Reservation.objects.count() == RESERVATIONS * SCALE
    assert year["tenants"] == Tenant.objects.count() == 60
    assert {tenant.depth for tenant in Tenant.objects.all()} == {0, 1, 2, 3}
    assert {each.role for each in Membership.objects.all()} == set(Role.values)
    assert len(set(User.objects.values_list("time_zone", flat=True))) >= 5
    assert Gpu.objects.count() == sum(machines.nodes * machines.gpus for machines in FLEET)


def test_every_way_to_end_and_every_way_to_wait_is_there(year):
    assert set(Reservation.objects.values_list("state", flat=True)) == set(State.values)
    reasons = set(Reservation.objects.exclude(end_reason="").values_list("end_reason", flat=True))
    assert reasons >= set(EndReason.values) - {EndReason.DISPLACED, EndReason.NODE_LOST}
    assert Reservation.objects.filter(state=State.QUEUED, wait__isnull=True).count() == 0
    assert not Reservation.objects.filter(state__in=[State.REQUESTED, State.REFUSED], approval__isnull=True).exists()


def test_the_date_of_each_series_is_that_of_its_reservation(year):
    rows = Reservation.objects.filter(series__isnull=False).select_related("series")
    assert rows.count() == Series.objects.count() > 20
    for row in rows:
        clock = Clock(zoneinfo.ZoneInfo(row.series.time_zone), row.series.opens, row.series.closes, row.series.days)
        assert (row.occurrence, clock.window_on(row.occurrence)) == (row.series.first_date, row.during)


def test_the_ledger_adds_up_to_what_the_leases_held(year, now):
    facts = [
        Fact(*row) for row in LedgerEntry.objects.values_list("lease_id", "kind", "at", "seconds").order_by("lease_id")
    ]
    days = days_of((now - dt.timedelta(days=400)).date(), (now + dt.timedelta(days=2)).date(), dt.UTC)
    ends = {lease.pk: lease.during.upper for lease in Lease.objects.all()}
    folded: Counter[int] = Counter()
    for (lease_id, _), seconds in seconds_by_day(stretches(facts, now, ends), days).items():
        folded[lease_id] += seconds
    held = {
        lease.pk: int(((lease.ended_at or now) - lease.active_at).total_seconds())
        for lease in Lease.objects.filter(active_at__isnull=False)
    }
    assert len(held) > 200
    assert {pk: seconds for pk, seconds in held.items() if seconds} == dict(folded)


def test_no_two_leases_with_a_place_ever_meet_on_a_slice_whatever_became_of_them(year):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM reservations_lease a JOIN reservations_lease b ON a.id < b.id AND a.gpu_id = b.gpu_id"
            " AND a.span && b.span AND a.during && b.during"
        )
        assert cursor.fetchone() == (0,)
    assert Lease.objects.filter(span__endswith__gt=F("gpu__memory_slices")).count() == 0


def test_every_reservation_with_a_place_has_all_its_ranks_and_only_live_ones_are_under_way(year):
    for row in Reservation.objects.annotate(found=Count("leases")):
        assert row.found in (0, row.ranks) and (row.found or row.state in (State.QUEUED, State.REFUSED))
    placed = [State.REQUESTED, State.CONFIRMED, State.RUNNING]
    live = Lease.objects.filter(state__in=LIVE)
    assert set(live.values_list("reservation__state", flat=True)) == set(placed)
    assert not Lease.objects.filter(reservation__state__in=placed).exclude(state__in=LIVE).exists()


def test_no_quota_and_no_budget_is_broken(year, now):
    whole = window(now - dt.timedelta(days=400), 24 * 500)
    for quota in Quota.objects.select_related("tenant__parent", "pool"):
        assert peak_weight_held(quota.tenant, quota.pool, whole) <= quota.limit
        check_tree(quota)
    for tenant in Tenant.objects.filter(children__isnull=True):
        assert all(status.left >= 0 for status in budget_statuses(tenant, now)), tenant


def test_shapes_are_what_the_drivers_say(year):
    told = {
        (gpu.model, gpu.mig_enabled, shape.name): (shape.size, sorted(shape.starts), shape.memory_mib)
        for gpus in facts_of_the_fleet().values()
        for gpu in gpus
        for shape in gpu.profiles
    }
    known = {
        (row.gpu_model, row.mig, row.name): (row.size, row.starts, row.memory_mib) for row in Profile.objects.all()
    }
    assert known == told
    assert Pool.objects.filter(gpus__isnull=True).count() == 0


def test_use_is_measured_in_the_last_weeks_and_never_more_than_was_held(year, now):
    held = LedgerEntry.objects.filter(kind="opened").values("lease_id")
    buckets = UseBucket.objects.filter(lease__in=held)
    assert buckets.count() == UseBucket.objects.count() > 1000
    assert buckets.filter(utilization__isnull=True).exists() and buckets.filter(utilization__gt=50).exists()
    assert not buckets.filter(busy_ms__gt=F("measured_seconds") * 1000).exists()
    for lease in Lease.objects.annotate(seen=Sum("use__measured_seconds")).filter(seen__isnull=False):
        assert lease.seen <= ((lease.ended_at or now) - lease.active_at).total_seconds() + 1


def test_every_booking_has_its_entry_in_the_trail(year):
    booked = AuditEntry.objects.filter(action="reservation.booked")
    assert set(booked.values_list("subject", flat=True)) == {row.number for row in Reservation.objects.all()}
