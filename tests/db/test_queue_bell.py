"""What became free is heard of: by a bell after the commit, and by sweeps when the bell was not heard."""

import datetime as dt
import time

import pytest
from django.utils import timezone

from agents.protocol import LeaseEvent, Report, event_id
from portal.reservations import queue_bell
from portal.reservations.agent_reports import apply_report
from portal.reservations.changing import release_reservation
from portal.reservations.models import Reservation, State, Wait
from scheduler.tasks import queue as tasks
from tests.db.test_queue import HOUR, ask, hold, now, place, unhurried
from tests.db.test_queue_waitlist import join

__all__ = ["place", "unhurried"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def rung(monkeypatch):
    """What was sent, in place of a worker that would take it."""
    sent: list[tuple] = []
    monkeypatch.setattr(queue_bell, "send_task", lambda *what: sent.append(what))
    return sent


def test_giving_back_rings_where_somebody_waits_and_the_bell_serves(place, rung, django_capture_on_commit_callbacks):
    in_use = hold(place, now() - HOUR, 10, owner=place["owner"], tenant=place["tenant"])
    waiting = ask(place)
    with django_capture_on_commit_callbacks(execute=True):
        release_reservation(reservation=in_use, actor=place["owner"])
    name, pool_id, rung_at = rung[-1]
    assert (name, pool_id) == ("scheduler.serve_queue", place["pool"].pk) and time.time() - rung_at < 60
    assert tasks.serve_queue(pool_id, rung_at) == 1
    waiting.refresh_from_db()
    assert waiting.state == State.CONFIRMED


def test_nothing_rings_where_nobody_waits(place, rung, django_capture_on_commit_callbacks):
    in_use = hold(place, now() - HOUR, 10, owner=place["owner"], tenant=place["tenant"])
    with django_capture_on_commit_callbacks(execute=True):
        release_reservation(reservation=in_use, actor=place["owner"])
    assert rung == []


def test_an_agent_that_says_free_rings(place, rung, django_capture_on_commit_callbacks):
    in_use = hold(place, now() - HOUR, 10, lease_state="active", frozen_at=now() - HOUR)
    lease = in_use.leases.get()
    in_use.leases.update(starting_at=now() - HOUR, active_at=now() - HOUR)
    ask(place)
    rung.clear()
    freed = LeaseEvent(event_id(lease.pk, "freed"), lease.pk, "freed", now().timestamp(), reason="exited")
    with django_capture_on_commit_callbacks(execute=True):
        apply_report(lease.gpu.node_id, Report(1, (), (freed,), ()), timezone.now())
    assert ("scheduler.serve_queue", place["pool"].pk) in [what[:2] for what in rung]


def test_a_bell_that_rang_before_the_last_pass_makes_no_further_one(place, monkeypatch):
    hold(place, now() - HOUR, 10)
    ask(place)
    passes: list[int] = []
    monkeypatch.setattr(tasks.queue_serving, "serve_queue", lambda pool_id: passes.append(pool_id) or 0)
    long_ago = int(time.time()) - 60
    tasks.serve_queue(place["pool"].pk, long_ago)
    assert passes == []
    tasks.serve_queue(place["pool"].pk, int(time.time()) + 60)
    assert passes == [place["pool"].pk]


def test_the_sweep_serves_what_no_bell_told_of(place):
    in_use = hold(place, now() - HOUR, 10, owner=place["owner"], tenant=place["tenant"])
    waiting = ask(place)
    release_reservation(reservation=in_use, actor=place["owner"])
    assert tasks.serve_queues() == 0, "it was looked at a moment ago"
    Wait.objects.update(checked_at=now() - dt.timedelta(minutes=1))
    assert tasks.serve_queues() == 1
    waiting.refresh_from_db()
    assert waiting.state == State.CONFIRMED


def test_the_sweep_takes_back_an_offer_that_nobody_took(place):
    taken = hold(place, now() + 24 * HOUR, 4, owner=place["owner"], tenant=place["tenant"])
    waiting = join(place, taken.during)
    release_reservation(reservation=taken, actor=place["owner"])
    Wait.objects.update(checked_at=now() - HOUR)
    assert tasks.serve_queues() == 1
    Reservation.objects.filter(pk=waiting.pk).update(hold_expires_at=now() - HOUR)
    assert tasks.lapse_offers() >= 1
    waiting.wait.refresh_from_db()
    assert waiting.wait.offers_lapsed == 1
