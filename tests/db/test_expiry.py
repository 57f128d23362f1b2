"""What is past its end comes to an end, in whatever state it was left, and costs what it held until its booked end."""

import datetime as dt

import pytest
from django.utils import timezone

from agents.protocol import Report
from portal.celery import app
from portal.inventory.models import Node
from portal.ledger.models import LedgerEntry
from portal.reservations.agent_reports import apply_report
from portal.reservations.models import Approval, Lease, LeaseState, Reservation, State, Wait
from scheduler.tasks.beat import BEAT_SCHEDULE
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_reservation, record, window

pytestmark = pytest.mark.django_db
DAY = dt.timedelta(days=1)
HOUR = dt.timedelta(hours=1)
FINAL = {State.ENDED, State.REFUSED, State.CANCELLED}
# (state of the reservation, of its lease or None without one, whether its agent was told, whether it ran)
LEFT_BEHIND = {
    "requested": (State.REQUESTED, LeaseState.PLANNED, False, False),
    "queued without a place": (State.QUEUED, None, False, False),
    "queued and offered one": (State.QUEUED, LeaseState.PLANNED, False, False),
    "confirmed, told nobody": (State.CONFIRMED, LeaseState.PLANNED, False, False),
    "confirmed, never started": (State.CONFIRMED, LeaseState.PLANNED, True, False),
    "confirmed, starting": (State.CONFIRMED, LeaseState.STARTING, True, False),
    "running": (State.RUNNING, LeaseState.ACTIVE, True, True),
    "running, being stopped": (State.RUNNING, LeaseState.STOPPING, True, True),
}


@pytest.fixture
def pool():
    return make_pool_with_gpus("H100", gpus=2)


def left_behind(pool, kind: str, start: dt.datetime) -> Reservation:
    """A reservation of 2 h as it stood when everything went down."""
    state, lease_state, told, ran = LEFT_BEHIND[kind]
    root, team, _project = make_org()
    make_quota(root, pool, 100)
    made = make_reservation(
        team, pool, "2g.20gb", window(start, 2), places=((pool.gpus.first(), 0),),
        state=State.CONFIRMED, lease_state=lease_state or LeaseState.PLANNED, frozen_at=start if told else None,
    )  # fmt: skip
    if lease_state is None:
        made.leases.all().delete()
    facts: dict = {"state": state}
    if state == State.REQUESTED:
        facts["approval"] = Approval.objects.create(
            tenant=team, asked_by=made.owner, expires_at=start, price_slice_seconds=1, threshold_slice_seconds=0
        )
    if state == State.QUEUED:
        Wait.objects.create(reservation=made, seconds=7200, not_before=start, give_up_at=start + 2 * HOUR)
    if state == State.REQUESTED or (state == State.QUEUED and lease_state):
        facts["hold_expires_at"] = start
    if ran:
        made.leases.update(starting_at=start, active_at=start)
        record(made.leases.get(), "opened", start)
    if lease_state in (LeaseState.STARTING, LeaseState.STOPPING):
        made.leases.update(starting_at=start)
    if lease_state == LeaseState.STOPPING:
        made.leases.update(stopping_at=start + HOUR)
    Reservation.objects.filter(pk=made.pk).update(**facts)
    return made


def every_sweep_runs_once() -> None:
    app.loader.import_default_modules()
    for entry in BEAT_SCHEDULE.values():
        app.tasks[entry["task"]]()


def agents_show_nothing(later: dt.datetime) -> None:
    """Each agent has read what it shall do and reports an empty machine."""
    for node in Node.objects.all():
        apply_report(node.pk, Report(observed_generation=node.generation, present=(), events=(), gpus=()), later)


@pytest.mark.case("R-22")
@pytest.mark.parametrize("kind", LEFT_BEHIND)
@pytest.mark.parametrize("ago", [HOUR, 3 * DAY], ids=["just now", "down for three days"])
def test_what_is_past_its_end_is_brought_to_one_in_one_pass(pool, kind, ago):
    now = timezone.now()
    end = now - ago
    made = left_behind(pool, kind, end - 2 * HOUR)
    Node.objects.update(last_seen_at=now)
    every_sweep_runs_once()
    agents_show_nothing(timezone.now() + dt.timedelta(seconds=180))
    made.refresh_from_db()
    assert made.state in FINAL
    assert not Lease.objects.exclude(state__in=[LeaseState.ENDED, LeaseState.FAILED]).exists()
    closes = list(LedgerEntry.objects.filter(kind="closed").values_list("at", flat=True))
    assert closes == ([made.ends_at] if LEFT_BEHIND[kind][3] else [])
    every_sweep_runs_once()
    made.refresh_from_db()
    assert made.state in FINAL
    assert LedgerEntry.objects.filter(kind="closed").count() == len(closes)
