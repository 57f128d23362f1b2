"""The usage page: reserved, running, used and idle, the same in every grouping, on the page and in the CSV."""

import csv
import datetime as dt
import io
import random
import zoneinfo
from decimal import Decimal

import pytest
from django.utils import timezone

from portal.live.models import UseBucket
from portal.reports import views
from portal.reports.figures import MS, total
from portal.reports.periods import Choice, Span, period_of
from portal.reports.usage import usage_of
from portal.reservations.models import Lease, LeaseState, Reservation, State
from portal.tenants.models import Role
from tests.factories import make_org, make_pool_with_gpus, make_reservation, make_tenant, make_user, record, window

pytestmark = pytest.mark.django_db
TAIPEI = zoneinfo.ZoneInfo("Asia/Taipei")
HOUR = dt.timedelta(hours=1)
START = dt.datetime(2026, 3, 9, 14, tzinfo=dt.UTC)  # 22:00 in Taipei
WEEK = Span(Choice.CUSTOM, dt.date(2026, 3, 8), dt.date(2026, 3, 12), TAIPEI)
LATER = dt.datetime(2026, 3, 20, tzinfo=dt.UTC)


@pytest.fixture
def org():
    return make_org(time_zone="Asia/Taipei")


@pytest.fixture
def pool():
    return make_pool_with_gpus("H100", gpus=2)


def _held(tenant, pool, profile="3g.40gb", hours=4.0, start=START, owner=None, slot=0, held_hours=None):
    """An ended reservation with its two ledger rows."""
    gpu = pool.gpus.first()
    made = make_reservation(tenant, pool, profile, window(start, hours), places=((gpu, slot),), owner=owner,
                            state=State.ENDED, lease_state=LeaseState.ENDED)  # fmt: skip
    lease = made.leases.get()
    record(lease, "opened", start)
    record(lease, "closed", start + (held_hours or hours) * HOUR)
    return lease


def _measure(lease, since, seconds, busy_ms, width=300, measured=None):
    for at in range(0, seconds, width):
        UseBucket.objects.create(
            lease=lease, at=since + dt.timedelta(seconds=at), seconds=width, busy_ms=busy_ms,
            measured_seconds=width if measured is None else measured)  # fmt: skip


def test_a_lease_over_midnight_is_split_between_the_days_of_the_tenants_zone(org, pool):
    _held(org[2], pool)
    found = usage_of(org[1], WEEK, LATER)
    running = {day.date: figures.running for day, figures in found.by_day if figures.running}
    assert running == {dt.date(2026, 3, 9): 3 * 2 * 3600, dt.date(2026, 3, 10): 3 * 2 * 3600}
    assert found.total.reserved == found.total.running == 3 * 4 * 3600


def test_used_is_the_busy_time_of_the_whole_slice_and_idle_the_rest_of_what_was_measured(org, pool):
    lease = _held(org[2], pool, hours=2.0)
    _measure(lease, START, 3600, busy_ms=75_000)
    figures = usage_of(org[0], WEEK, LATER).total
    assert figures.used == 3 * 900
    assert figures.idle == 3 * 2700
    assert figures.unmeasured == 3 * 3600
    assert figures.running * MS == figures.used_ms + figures.idle_ms + figures.unmeasured_ms


def test_a_ten_second_mean_counts_only_until_it_is_rolled_up(org, pool):
    lease = _held(org[2], pool, hours=1.0)
    _measure(lease, START, 300, busy_ms=5_000, width=10)
    before = usage_of(org[0], WEEK, LATER).total
    UseBucket.objects.create(lease=lease, at=START, seconds=300, busy_ms=150_000, measured_seconds=300)
    after = usage_of(org[0], WEEK, LATER).total
    assert (before.used_ms, after.used_ms) == (3 * 150_000, 3 * 150_000)
    assert before.measured_ms == after.measured_ms == 3 * 300_000


def test_what_could_not_be_measured_is_not_a_zero(org, pool):
    _held(org[2], pool)
    figures = usage_of(org[0], WEEK, LATER).total
    assert figures.used is None
    assert figures.idle is None
    assert figures.unmeasured == figures.running


def test_what_was_released_or_never_started_shows_as_reserved_and_not_running(org, pool):
    released = _held(org[2], pool, hours=4.0, held_hours=1.0)
    Reservation.objects.filter(pk=released.reservation_id).update(end_reason="released")
    never = make_reservation(org[2], pool, "1g.10gb", window(START, 2), places=((pool.gpus.first(), 6),),
                             state=State.ENDED, lease_state=LeaseState.FAILED)  # fmt: skip
    Reservation.objects.filter(pk=never.pk).update(end_reason="no_show")
    cancelled = make_reservation(org[2], pool, "1g.10gb", window(START, 2), places=((pool.gpus.first(), 5),),
                                 state=State.CANCELLED, lease_state=LeaseState.ENDED)  # fmt: skip
    found = usage_of(org[0], WEEK, LATER)
    rows = {row.key: row for row in found.by_reservation}
    assert rows[released.reservation_id].released == 3 * 3 * 3600
    assert rows[never.pk].never_started == 2 * 3600
    assert cancelled.pk not in rows
    assert found.total.reserved == 3 * 4 * 3600 + 2 * 3600


def test_what_lies_ahead_is_committed_and_what_runs_counts_until_now(org, pool):
    lease = make_reservation(org[2], pool, "2g.20gb", window(START, 4), places=((pool.gpus.first(), 0),),
                             state=State.RUNNING, lease_state=LeaseState.ACTIVE).leases.get()  # fmt: skip
    record(lease, "opened", START)
    figures = usage_of(org[0], WEEK, START + HOUR).total
    assert figures.running == 2 * 3600
    assert figures.committed == 2 * 3 * 3600
    assert figures.not_running == 0
    assert usage_of(org[0], WEEK, START + 9 * HOUR).total.running == 2 * 4 * 3600  # unheard of since


def test_a_correction_counts_on_its_day_and_other_tenants_never_count(org, pool):
    lease = _held(org[2], pool)
    record(lease, "corrected", START + 24 * HOUR, seconds=-600)
    _held(make_tenant("robotics", org[0]), pool, slot=4)
    assert usage_of(org[1], WEEK, LATER).total.running == 3 * (4 * 3600 - 600)
    assert usage_of(org[0], WEEK, LATER).total.running == 3 * (8 * 3600 - 600)


def test_every_grouping_gives_the_same_totals(org, pool):
    chance = random.Random(7)
    people = [make_user(tenant=org[2]) for _ in range(4)]
    for number in range(25):
        start = START + dt.timedelta(seconds=chance.randrange(-100_000, 200_000))
        lease = _held(chance.choice(org[1:]), pool, "1g.10gb", hours=chance.uniform(0.1, 30), start=start,
                      owner=chance.choice(people), slot=number % 7, held_hours=chance.uniform(0.05, 30))  # fmt: skip
        _measure(lease, START - (START - start) % dt.timedelta(minutes=5), 3000, busy_ms=chance.randrange(300_000))
    found = usage_of(org[0], WEEK, LATER)
    by_day = total(figures for _, figures in found.by_day)
    by_member = total(row.figures for row in found.by_member)
    by_pair = total(figures for _, _, figures in found.by_member_and_day)
    assert found.total == by_day == by_member == by_pair == total(row.figures for row in found.by_reservation)
    assert found.total.running > 0
    halves = [Span(Choice.CUSTOM, first, last, TAIPEI) for first, last in (
        (WEEK.first, dt.date(2026, 3, 9)), (dt.date(2026, 3, 10), WEEK.last))]  # fmt: skip
    assert total(usage_of(org[0], half, LATER).total for half in halves) == found.total


@pytest.mark.parametrize(
    "first, last", [("2026-03-12", "2026-03-08"), ("2024-01-01", "2026-01-01"), ("x", ""), ("0001-01-01", "0001-01-02")]
)
def test_dates_that_make_no_period_are_refused_with_a_sentence(client, org, first, last):
    client.force_login(make_user(tenant=org[1]))
    page = client.get("/usage/", {"period": "custom", "from": first, "to": last})
    assert page.status_code == 422
    assert b'role="alert"' in page.content


def test_the_named_periods_are_whole_months():
    today = dt.date(2026, 3, 17)
    spans = [period_of(choice, "", "", today, TAIPEI) for choice in ("this-month", "last-month", "last-30-days")]
    assert [(span.first, span.last) for span in spans] == [
        (dt.date(2026, 3, 1), dt.date(2026, 3, 31)),
        (dt.date(2026, 2, 1), dt.date(2026, 2, 28)),
        (dt.date(2026, 2, 16), today),
    ]


def test_the_csv_holds_the_numbers_of_the_page_and_no_formula(client, org, pool):
    lead = make_user("lead", org[1], Role.LEAD)
    owner = make_user("=cmd|calc", org[2])
    start = timezone.now().replace(minute=0, second=0, microsecond=0) - 30 * HOUR
    lease = _held(org[2], pool, start=start, owner=owner)
    _measure(lease, start, 3600, busy_ms=123_457)
    client.force_login(lead)
    query = {"period": "last-30-days", "tenant": org[1].pk}
    shown = client.get("/usage/", query).context["usage"].total
    answer = client.get("/usage/", {**query, "format": "csv"})
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {row["member"] for row in rows} == {"'=cmd|calc"}
    for column, wanted in [
        ("reserved", shown.reserved), ("running", shown.running), ("used", Decimal(shown.used_ms) / MS),
        ("idle", Decimal(shown.idle_ms) / MS), ("not_measured", Decimal(shown.unmeasured_ms) / MS),
    ]:  # fmt: skip
        assert sum(Decimal(row[f"{column}_slice_seconds"] or 0) for row in rows) == wanted


def test_a_tenant_that_is_not_yours_is_not_there(client, org):
    outsider = make_user(tenant=make_tenant("robotics", org[0]))
    client.force_login(outsider)
    assert client.get("/usage/", {"tenant": org[1].pk}).status_code == 404
    assert client.get("/usage/", {"tenant": org[1].pk, "format": "csv"}).status_code == 404
    assert client.get("/usage/", {"tenant": "9" * 40}).status_code == 404
    assert client.get("/usage/").status_code == 200


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_queries_do_not_grow_with_rows(client, org, pool, rows, django_assert_max_num_queries):
    start = timezone.now().replace(microsecond=0) - 40 * HOUR
    for number in range(rows):
        lease = _held(org[2], pool, "1g.10gb", 1.0, start + number * dt.timedelta(minutes=3), slot=number % 7)
        _measure(lease, start, 600, busy_ms=1000)
    client.force_login(make_user(tenant=org[0], role=Role.VIEWER))
    with django_assert_max_num_queries(12):
        page = client.get("/usage/", {"period": "last-30-days"})
    assert page.status_code == 200
    assert len(page.context["members"]) == rows


def test_what_was_released_is_listed_with_its_seconds_and_its_own_page_adds_up(client, org, pool):
    member = make_user(tenant=org[1])
    lease = _held(org[1], pool, "1g.10gb", hours=2.0, owner=member, held_hours=155 / 3600)
    Reservation.objects.update(end_reason="released", ended_at=START + dt.timedelta(seconds=155), weight=1)
    Lease.objects.filter(pk=lease.pk).update(
        starting_at=START, active_at=START, ended_at=START + dt.timedelta(seconds=155), end_reason="released")
    client.force_login(member)
    days = {"tenant": org[1].pk, "period": "custom", "from": "2026-03-08", "to": "2026-03-12"}
    body = client.get("/usage/", days).content.decode()
    assert lease.reservation.number.split("-")[1] in body and ">155<" in body
    assert "the ledger holds 155 slice-seconds" in body
    shown = client.get(f"/reservations/{lease.reservation.number}/").content.decode()
    assert "<dd>155</dd>" in shown and "0.04 slice-h" in shown and "1.96 slice-h" in shown and "So far" not in shown


def test_in_the_first_days_of_a_month_the_last_one_is_offered(client, org, monkeypatch):
    client.force_login(make_user(tenant=org[1]))
    monkeypatch.setattr(views, "JUST_BEGUN", dt.timedelta(days=40))
    assert "Show last month" in client.get("/usage/").content.decode()
    assert "Show last month" not in client.get("/usage/", {"period": "last-month"}).content.decode()
