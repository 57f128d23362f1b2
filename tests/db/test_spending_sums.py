"""Spending read from sums is what a fold of every ledger row says, to the last slice-second, whenever batches ran."""

import datetime as dt
import random
import zoneinfo

import pytest
from django.db import connection

from portal.ledger.folding import Day, Fact, days_met, seconds_within, stretches
from portal.ledger.models import DailySum, LedgerEntry, UnsummedEntry
from portal.ledger.sums import compare, rebuild, sum_up
from portal.quotas.models import Budget, Period
from portal.quotas.periods import period_at, periods_met
from portal.reservations.models import Lease, LeaseState
from portal.reservations.spending import statuses_of
from portal.reservations.spending_sums import SUMS, Asked, query_parameters, sums_of
from tests.factories import make_budget, make_org, make_pool_with_gpus, make_reservation, make_tenant, record, window

pytestmark = pytest.mark.django_db
# Half an hour off in summer only; a quarter off and ahead; a clock that jumps at midnight; an hour off; none.
ZONES = ["Australia/Lord_Howe", "Pacific/Chatham", "America/Santiago", "Europe/Berlin", "Asia/Kathmandu", "UTC"]
BEGINNING = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SHAPES = ["1g.10gb", "2g.20gb", "3g.40gb"]


def somewhen(chance: random.Random, days: float) -> dt.datetime:
    return BEGINNING + dt.timedelta(seconds=chance.uniform(0, days * 86400))


def brute_force(path: str, since: dt.datetime, until: dt.datetime, now: dt.datetime) -> int:
    """Every row of the ledger, folded in Python: nothing of the sums is used."""
    rows = list(LedgerEntry.objects.filter(tenant__path__startswith=path))
    weights = {row.lease_id: row.weight for row in rows}
    ends = {lease.pk: lease.during.upper for lease in Lease.objects.filter(pk__in=weights)}
    facts = [Fact(row.lease_id, row.kind, row.at, row.seconds) for row in rows]
    whole, found = Day(since.date(), since, until), 0
    for part in stretches(facts, now, ends):
        if days_met(part.since, part.until, [whole]):
            moment = part.since == part.until
            seconds = part.seconds if moment else seconds_within(part.since, part.until, whole)
            found += weights[part.lease_id] * seconds
    return found


class Year:
    """Leases at random, told to the ledger in random order, summed up at random moments in between."""

    def __init__(self, chance: random.Random, tenants: list, pools: list) -> None:
        self.chance, self.tenants, self.pools = chance, tenants, pools
        self.told: list[tuple[Lease, str, dt.datetime, int]] = []

    def lease(self) -> None:
        chance = self.chance
        pool = chance.choice(self.pools)
        start = somewhen(chance, 360)
        during = window(start, chance.choice([0.0001, 0.3, 4, 30, 24 * 9]) * chance.uniform(0.5, 1.5))
        lease = make_reservation(
            chance.choice(self.tenants), pool, chance.choice(SHAPES), during, places=((pool.gpus.all()[0], 0),),
            lease_state=LeaseState.ENDED).leases.get()  # fmt: skip
        self.told.append((lease, "opened", start, 0))
        if chance.random() < 0.85:
            end = start + (during.upper - start) * chance.uniform(0, 1)
            self.told.append((lease, "closed", end, 0))
            while chance.random() < 0.25:
                at = start + dt.timedelta(days=chance.uniform(-20, 20))
                self.told.append((lease, "corrected", at, chance.randrange(-5000, 5000)))

    def happen(self) -> None:
        self.chance.shuffle(self.told)
        for lease, kind, at, seconds in self.told:
            record(lease, kind, at, seconds)
            if self.chance.random() < 0.08:
                sum_up(somewhen(self.chance, 400), waiting_most=self.chance.choice([0, 3, 1000]))
            if self.chance.random() < 0.01:
                rebuild()


@pytest.mark.case("Q-03")
@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_from_sums_is_what_every_row_says_in_every_zone(seed):
    chance = random.Random(seed)
    root, team, project = make_org()
    tenants = [root, team, project, make_tenant("robotics", root)]
    for tenant, zone in zip(tenants, chance.sample(ZONES, len(tenants)), strict=True):
        type(tenant).objects.filter(pk=tenant.pk).update(time_zone=zone)
        make_budget(tenant, 10**9, chance.choice(Period.values))
    year = Year(chance, tenants, [make_pool_with_gpus("H100", gpus=1), make_pool_with_gpus("A100", gpus=1)])
    for _ in range(40):
        year.lease()
    # Leases of one GPU may not overlap while they are live; these have ended, and only the ledger says what was held.
    year.happen()
    assert DailySum.objects.exists()
    assert UnsummedEntry.objects.exists()
    now = somewhen(chance, 380)
    budgets = list(Budget.objects.select_related("tenant"))
    asked = [(budget, period_at(budget, somewhen(chance, 365))) for budget in budgets for _ in range(6)]
    got = [status.spent for status in statuses_of(asked, now)]
    assert got == [brute_force(one.tenant.path, period.since, period.until, now) for one, period in asked]
    odd = [Asked(root.path, since, since + dt.timedelta(seconds=chance.uniform(0, 200_000)))
           for since in (somewhen(chance, 360) for _ in range(20))]  # fmt: skip
    assert [one.spent for one in sums_of(odd, now)] == [brute_force(a.path, a.since, a.until, now) for a in odd]
    assert compare().agrees


@pytest.mark.parametrize(("zone", "day", "hours"), [
    ("Australia/Lord_Howe", dt.date(2026, 4, 5), 24.5), ("Australia/Lord_Howe", dt.date(2026, 10, 4), 23.5),
    ("Europe/Berlin", dt.date(2026, 3, 29), 23), ("Europe/Berlin", dt.date(2026, 10, 25), 25),
    ("Pacific/Chatham", dt.date(2026, 6, 1), 24),
])  # fmt: skip
def test_a_day_is_charged_as_long_as_it_is(zone, day, hours):
    root, *_ = make_org()
    pool, place = make_pool_with_gpus("H100", gpus=1), zoneinfo.ZoneInfo(zone)
    since, until = (dt.datetime.combine(date, dt.time.min, tzinfo=place) for date in (day, day + dt.timedelta(days=1)))
    lease = make_reservation(root, pool, "1g.10gb", window(since.astimezone(dt.UTC), 50),
                             places=((pool.gpus.get(), 0),), lease_state=LeaseState.ENDED).leases.get()  # fmt: skip
    record(lease, "opened", since - dt.timedelta(days=2))
    record(lease, "closed", until + dt.timedelta(days=2))
    sum_up(until + dt.timedelta(days=9))
    assert not UnsummedEntry.objects.exists()
    assert sums_of([Asked(root.path, since, until)], until)[0].spent == hours * 3600


def test_months_of_a_zone_add_up_to_what_was_held():
    root, *_ = make_org("Pacific/Chatham")
    pool = make_pool_with_gpus("H100", gpus=1)
    lease = make_reservation(root, pool, "1g.10gb", window(BEGINNING, 1), places=((pool.gpus.get(), 0),),
                             lease_state=LeaseState.ENDED).leases.get()  # fmt: skip
    record(lease, "opened", BEGINNING)
    record(lease, "closed", BEGINNING + dt.timedelta(days=200, seconds=7))
    sum_up(BEGINNING + dt.timedelta(days=300))
    budget = make_budget(root, 1)
    months = [(budget, month) for month in periods_met(budget, BEGINNING, BEGINNING + dt.timedelta(days=210))]
    assert sum(one.spent for one in statuses_of(months, BEGINNING + dt.timedelta(days=300))) == 200 * 86400 + 7


def ledger_rows_read(plan: dict) -> int:
    """Rows of the raw ledger that a plan has looked at."""
    here = 0
    if plan.get("Relation Name") == "ledger_ledgerentry":
        looked_at = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        here = round(looked_at * plan["Actual Loops"])
    return here + sum(map(ledger_rows_read, plan.get("Plans", ())))


def test_a_year_of_the_root_reads_next_to_nothing_of_the_raw_ledger():
    root, _team, project = make_org("Asia/Taipei")
    pool = make_pool_with_gpus("H100", gpus=1)
    first = make_reservation(project, pool, "1g.10gb", window(BEGINNING), places=((pool.gpus.get(), 0),),
                             lease_state=LeaseState.ENDED).leases.get()  # fmt: skip
    like = record(first, "opened", BEGINNING)
    rows = []
    for number in range(1, 1501):
        for kind, hours in (("opened", 0), ("closed", 3)):
            at = BEGINNING + number * dt.timedelta(hours=5) + dt.timedelta(hours=hours)
            rows.append(LedgerEntry(
                kind=kind, lease_id=10**9 + number, reservation_id=like.reservation_id, tenant=project, user=like.user,
                pool=pool, profile_name="1g.10gb", at=at, weight=1, slices=1, source="test"))  # fmt: skip
    LedgerEntry.objects.bulk_create(rows)
    later = BEGINNING + dt.timedelta(days=340)
    sum_up(later)
    asked = [Asked(root.path, BEGINNING - dt.timedelta(hours=8), BEGINNING + dt.timedelta(days=365, hours=-8))]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ledger_ledgerentry, ledger_dailysum, ledger_unsummedentry")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {SUMS}", query_parameters(asked, later))
        plan = cursor.fetchone()[0][0]["Plan"]
    assert ledger_rows_read(plan) <= 30
    assert sums_of(asked, later)[0].spent == 1500 * 3 * 3600 + 3600
