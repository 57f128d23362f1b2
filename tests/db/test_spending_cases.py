"""What is given back is there again to the second; what has ended holds nothing, however often all is started anew."""

import datetime as dt
import random

import pytest
from django.core.cache import cache
from django.db import connection
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange, NumericRange

from agents.protocol import LeaseEvent, Report, event_id
from portal.celery import app
from portal.inventory.models import Gpu, Node
from portal.reservations.agent_reports import apply_report
from portal.reservations.booking import book_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.errors import BudgetExceeded, QuotaExceeded
from portal.reservations.models import Lease, LeaseState, Reservation, State
from portal.reservations.selectors import peak_weight_held
from portal.reservations.spending import budget_statuses_during, check_budgets
from portal.workloads.drafts import WorkloadDraft
from portal.workloads.models import Workload
from scheduler.tasks.beat import BEAT_SCHEDULE
from tests.factories import (
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_user,
    profile_of,
    record,
    window,
)

HOUR = dt.timedelta(hours=1)
RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))


def running(tenant, pool, start: dt.datetime, hours: float, profile="7g.80gb", owner=None, place=None) -> Reservation:
    """It began at ``start`` and the ledger knows it."""
    made = make_reservation(
        tenant, pool, profile, window(start, hours), places=(place or (pool.gpus.first(), 0),), owner=owner,
        state=State.RUNNING, lease_state=LeaseState.ACTIVE, frozen_at=start)  # fmt: skip
    made.leases.update(starting_at=start, active_at=start)
    for lease in made.leases.all():
        record(lease, "opened", start)
    return made


def book(tenant, pool, owner, during: DateTimeTZRange, profile="7g.80gb", ranks=1) -> Reservation:
    return book_reservation(
        created_by=owner, owner=owner, tenant=tenant, pool=pool, profile=profile_of(pool, profile), ranks=ranks,
        during=during, workload=RUN)  # fmt: skip


@pytest.mark.django_db
@pytest.mark.case("R-12")
def test_ended_after_two_of_three_hours_the_third_is_bookable_at_once_and_goes_back_to_the_budget():
    _root, team, _project = make_org()
    pool = make_pool_with_gpus("H100", gpus=1)
    make_quota(_root, pool, 7)
    make_budget(team, 7 * 3 * 3600, "year")
    owner = make_user(tenant=team)
    # Half a second off the whole, so that the agent's seconds, which are a fraction, fall into the right one.
    start = timezone.now().replace(microsecond=500_000) - 2 * HOUR
    made, third = running(team, pool, start, 3, owner=owner), DateTimeTZRange(start + 2 * HOUR, start + 3 * HOUR, "[)")
    with pytest.raises(QuotaExceeded):
        book(team, pool, owner, third)
    release_reservation(reservation=made, actor=owner)
    lease = made.leases.get()
    freed = LeaseEvent(event_id(lease.pk, "freed"), lease.pk, "freed", third.lower.timestamp(), reason="withdrawn")
    node = Node.objects.get()
    apply_report(node.pk, Report(node.generation, (), (freed,), ()), timezone.now() + dt.timedelta(seconds=2))
    assert peak_weight_held(team, pool, third) == 0
    (status,) = budget_statuses_during(team, start, start + HOUR, timezone.now())
    assert (status.spent, status.committed, status.left) == (7 * 2 * 3600, 0, 7 * 3600)
    assert book(team, pool, owner, third).state == State.CONFIRMED
    with pytest.raises((BudgetExceeded, QuotaExceeded)):
        book(team, pool, owner, third, profile="1g.10gb")


@pytest.mark.django_db
@pytest.mark.case("R-12")
def test_a_longer_window_of_what_runs_is_not_paid_twice():
    """What ran is spent already, and what it promises is replaced by what it asks for now."""
    _root, team, _project = make_org()
    pool = make_pool_with_gpus("H100", gpus=1)
    now = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
    made = running(team, pool, now - 2 * HOUR, 3)
    make_budget(team, 7 * 5 * 3600)
    five, six = window(now - 2 * HOUR, 5), window(now - 2 * HOUR, 5.001)
    check_budgets(team, 7, five, now, instead_of=made)
    with pytest.raises(BudgetExceeded) as refused:
        check_budgets(team, 7, six, now, instead_of=made)
    assert refused.value.evidence["left_slice_seconds"] == 7 * 3 * 3600
    with pytest.raises(BudgetExceeded):
        check_budgets(team, 7, five, now)


def finished(tenant, pool, owner, many: int, now: dt.datetime) -> None:
    """Reservations that have ended, with windows that reach over now: only their state says that they hold nothing."""
    profile, gpu = profile_of(pool, "1g.10gb"), pool.gpus.first()
    workloads = Workload.objects.bulk_create(Workload(tenant=tenant, name="x", command=["x"]) for _ in range(many))
    made = Reservation.objects.bulk_create(
        Reservation(tenant=tenant, owner=owner, created_by=owner, pool=pool, profile=profile, weight=profile.weight,
                    during=window(now - HOUR, 5), workload=workload, state=State.ENDED, end_reason="released")
        for workload in workloads
    )  # fmt: skip
    Lease.objects.bulk_create(
        Lease(reservation=one, rank=0, gpu=gpu, span=NumericRange(0, 1), during=one.during, state=LeaseState.ENDED)
        for one in made
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.case("Q-01", "Q-03")
def test_quota_in_use_is_what_runs_however_often_everything_is_started_anew():
    root, team, _project = make_org()
    pool = make_pool_with_gpus("H100", gpus=3)
    owner, now, chance = make_user(tenant=team), timezone.now(), random.Random(1)
    make_quota(root, pool, 12)
    finished(team, pool, owner, 1000, now)
    gpus = list(Gpu.objects.order_by("index"))
    for number in range(10):
        running(team, pool, now - HOUR, 5, "1g.10gb", owner, (gpus[number // 5], number % 5))
    Node.objects.update(last_seen_at=now)
    app.loader.import_default_modules()
    for _ in range(20):
        connection.close()
        cache.clear()
        app.tasks[chance.choice(sorted(entry["task"] for entry in BEAT_SCHEDULE.values()))]()
        assert peak_weight_held(team, pool, window(timezone.now(), 1)) == 10
    with pytest.raises(QuotaExceeded) as refused:
        book(team, pool, owner, window(timezone.now(), 1), "1g.10gb", ranks=3)
    assert refused.value.evidence["held"] == 10
    assert book(team, pool, owner, window(timezone.now(), 1), "1g.10gb", ranks=2).state == State.CONFIRMED
