"""Requests that wait: served at once where a gap is long enough, else queued with an estimate and one true reason."""

import datetime as dt

import pytest
from django.utils import timezone

from portal.audit.models import AuditEntry
from portal.inventory.models import Gpu
from portal.notices.models import Kind, Notice
from portal.quotas.models import Policy
from portal.reservations import queue_serving
from portal.reservations.changing import release_reservation
from portal.reservations.errors import IdempotencyConflict, NoAccess, NoCapacity, PolicyRefused, QuotaExceeded
from portal.reservations.models import Lease, Maintenance, Reservation, State, Wait
from portal.reservations.queue_plan import Waits
from portal.reservations.queue_reasons import reason_sentence
from portal.reservations.queue_serving import planned_in, pools_to_look_at, serve_queue
from portal.reservations.queueing import queue_request
from portal.workloads.drafts import WorkloadDraft
from tests.factories import (
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    profile_of,
    window,
)

pytestmark = pytest.mark.django_db
HOUR = dt.timedelta(hours=1)
RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """What is tested here is what a pass finds, not how far it comes on a machine that is busy otherwise."""
    monkeypatch.setattr(queue_serving, "PASS_SECONDS", 120.0)


@pytest.fixture
def place():
    root, team, below = make_org()
    pool = make_pool_with_gpus("H100", 1)
    make_quota(root, pool, 7)
    return {"tenant": team, "pool": pool, "owner": make_user(tenant=team), "root": root, "gpu": Gpu.objects.get()}


def ask(place, profile="7g.80gb", hours=4.0, tenant=None, owner=None, ranks=1, **more):
    tenant = tenant or place["tenant"]
    owner = owner or (place["owner"] if tenant == place["tenant"] else make_user(tenant=tenant))
    return queue_request(
        created_by=owner, owner=owner, tenant=tenant, pool=place["pool"], profile=profile_of(place["pool"], profile),
        ranks=ranks, seconds=int(hours * 3600), **({"workload": RUN} | more))  # fmt: skip


def hold(place, start, hours, profile="7g.80gb", at=0, tenant=None, **more):
    tenant = tenant or place["root"]
    return make_reservation(tenant, place["pool"], profile, window(start, hours), places=((place["gpu"], at),), **more)


def now():
    return timezone.now().replace(microsecond=0)


def stored(pool):
    """Number, estimate, reason and evidence of every request that waits, as a pass left them."""
    rows = Wait.objects.filter(reservation__pool=pool, reservation__state=State.QUEUED).select_related("reservation")
    return {row.reservation_id: (row.estimated_at, row.reason, row.evidence) for row in rows}


def worked_out(pool, at):
    return {
        one.reservation.pk: (one.during.lower if one.during else None, one.reason, one.evidence)
        for one in planned_in(pool, at)
    }


def test_what_fits_now_is_served_at_once(place):
    reservation = ask(place)
    assert reservation.state == State.CONFIRMED
    assert reservation.starts_at <= timezone.now()
    assert reservation.planned_seconds == 4 * 3600
    assert reservation.leases.get().frozen_at is not None
    assert not Wait.objects.exists()


def test_it_takes_the_gap_before_the_next_lease_when_that_is_long_enough(place):
    hold(place, now() + 4 * HOUR, 20)
    assert ask(place, hours=3.9).state == State.CONFIRMED


def test_a_gap_that_is_too_short_is_left_and_the_reason_says_until_when(place):
    lease = hold(place, now() + 3 * HOUR, 20)
    waiting = ask(place)
    assert waiting.state == State.QUEUED
    assert waiting.starts_at == waiting.wait.estimated_at == lease.ends_at
    assert (waiting.wait.reason, waiting.wait.evidence) == ("no_room", {"until": lease.ends_at.isoformat()})
    assert not waiting.leases.exists()


def test_a_start_within_the_freeze_horizon_is_bound_at_once(place):
    lease = hold(place, now() - HOUR, 2)
    reservation = ask(place)
    assert (reservation.state, reservation.starts_at) == (State.CONFIRMED, lease.ends_at)


def test_a_later_request_backfills_but_never_delays_the_one_before_it(place):
    first_end = hold(place, now() - HOUR, 5, "3g.40gb", at=0).ends_at
    large = ask(place, "7g.80gb", hours=4)
    assert (large.state, large.starts_at) == (State.QUEUED, first_end)
    filler = ask(place, "3g.40gb", hours=3)
    assert filler.state == State.CONFIRMED
    too_long = ask(place, "3g.40gb", hours=8)
    assert (too_long.state, too_long.wait.reason) == (State.QUEUED, "behind")
    assert too_long.wait.evidence["ahead"] == 1
    large.wait.refresh_from_db()
    assert large.wait.estimated_at == first_end
    assert too_long.starts_at == large.ends_at


def test_the_limit_of_the_tenant_is_the_reason_while_it_is_what_clears_last(place):
    make_quota(place["tenant"], place["pool"], 3)
    held = hold(place, now() - HOUR, 10, "3g.40gb", tenant=place["tenant"])
    waiting = ask(place, "1g.10gb")
    assert (waiting.wait.reason, waiting.starts_at) == ("limit", held.ends_at)
    assert waiting.wait.evidence == {
        "tenant": "vision-lab", "limit": 3, "held": 3, "asked": 1, "until": held.ends_at.isoformat()
    }  # fmt: skip


def test_a_budget_is_the_reason_until_its_next_period_begins(place):
    make_budget(place["tenant"], 100)
    waiting = ask(place, "1g.10gb", give_up_at=now() + dt.timedelta(days=60))
    assert waiting.wait.reason == "budget"
    assert waiting.starts_at is not None and waiting.wait.estimated_at is None, "100 slice-s never pay for four hours"


def test_what_one_person_may_hold_is_a_reason(place):
    Policy.objects.create(tenant=place["tenant"], most_weight_each=3)
    held = hold(place, now() - HOUR, 10, "3g.40gb", tenant=place["tenant"], owner=place["owner"])
    waiting = ask(place, "1g.10gb")
    assert (waiting.wait.reason, waiting.starts_at) == ("person", held.ends_at)


def test_maintenance_is_the_reason_when_only_that_is_in_the_way(place):
    closed = window(now() - HOUR, 6)
    Maintenance.objects.create(pool=place["pool"], during=closed, reason="firmware", created_by=place["owner"])
    waiting = ask(place)
    assert (waiting.wait.reason, waiting.starts_at) == ("maintenance", closed.upper)


def test_what_could_never_be_served_is_refused_with_the_number(place):
    with pytest.raises(NoCapacity) as refused:
        ask({**place, "pool": big_quota(place)}, ranks=2)
    assert refused.value.evidence["at_most"] == 1
    place["root"].quotas.update(limit=6)
    with pytest.raises(QuotaExceeded) as refused:
        ask(place)
    assert refused.value.evidence == {"tenant": "northquay", "limit": 6, "held": 0, "asked": 7}
    Policy.objects.create(tenant=place["tenant"], most_weight_each=1)
    with pytest.raises(PolicyRefused):
        ask(place, "2g.20gb")
    with pytest.raises(NoAccess):
        ask(place, owner=make_user())
    assert not Reservation.objects.exists()


def big_quota(place):
    place["root"].quotas.update(limit=100)
    return place["pool"]


def test_the_same_key_queues_once(place):
    hold(place, now() - HOUR, 20)
    first = ask(place, key="once")
    assert ask(place, key="once").pk == first.pk
    with pytest.raises(IdempotencyConflict):
        ask(place, hours=5, key="once")
    assert Reservation.objects.filter(state=State.QUEUED).count() == 1


def test_the_tenant_that_used_least_of_its_guarantee_comes_first(place, monkeypatch):
    busy, quiet = place["tenant"], make_tenant("speech", place["root"])
    for tenant in (busy, quiet):
        make_quota(tenant, place["pool"], 7, guaranteed=3)
    in_use = hold(place, now() - HOUR, 10, tenant=busy)
    first = ask(place, tenant=busy)
    assert first.starts_at == in_use.ends_at
    second = ask(place, tenant=quiet)
    first.refresh_from_db()
    assert second.starts_at == in_use.ends_at
    assert (first.starts_at, first.wait.reason) == (second.ends_at, "behind")


def test_freed_time_is_given_to_the_first_in_order_and_told_with_its_real_start(place):
    in_use = hold(place, now() - HOUR, 10, owner=place["owner"], tenant=place["tenant"])
    first, second = ask(place), ask(place)
    Wait.objects.update(since=now() - 2 * HOUR)
    release_reservation(reservation=in_use, actor=place["owner"])
    assert serve_queue(place["pool"].pk) == 1
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (State.CONFIRMED, State.QUEUED)
    notice = Notice.objects.get(kind=Kind.CONFIRMED)
    assert notice.facts["starts_at"] == first.starts_at.isoformat()
    assert second.starts_at == first.ends_at
    served = AuditEntry.objects.get(action="reservation.served")
    assert served.subject == first.number and served.after["waited_seconds"] >= 7190


def test_what_costs_more_than_the_threshold_is_held_for_the_leads_once_its_turn_comes(place):
    make_user(tenant=place["tenant"], role="lead")
    Policy.objects.create(tenant=place["tenant"], approval_above_slice_seconds=3600)
    reservation = ask(place)
    assert reservation.state == State.REQUESTED
    assert reservation.leases.get().frozen_at is None
    assert Notice.objects.filter(kind=Kind.APPROVAL_WANTED).count() == 1


def test_what_found_no_place_in_time_is_given_up_and_told(place):
    hold(place, now() - HOUR, 40)
    waiting = ask(place, give_up_at=now() + HOUR)
    assert (waiting.wait.estimated_at, waiting.wait.reason) == (None, "no_room")
    serve_queue(place["pool"].pk, now() + 2 * HOUR)
    waiting.refresh_from_db()
    assert waiting.state == State.CANCELLED
    assert Notice.objects.get(kind=Kind.GAVE_UP).user == place["owner"]
    assert AuditEntry.objects.filter(action="reservation.gave_up").exists()


def test_who_leaves_the_queue_is_cancelled_and_the_next_moves_up(place):
    in_use = hold(place, now() - HOUR, 10)
    first, second = ask(place), ask(place)
    release_reservation(reservation=first, actor=place["owner"])
    serve_queue(place["pool"].pk)
    second.refresh_from_db()
    assert second.starts_at == in_use.ends_at


def test_a_guarantee_is_not_kept_waiting_by_who_borrows(place):
    lender, borrower = place["tenant"], make_tenant("speech", place["root"])
    make_quota(lender, place["pool"], 7, guaranteed=7)
    make_quota(borrower, place["pool"], 7)
    borrowed = hold(place, now() - 2 * HOUR, 40, tenant=borrower)
    Reservation.objects.filter(pk=borrowed.pk).update(borrowed=True)
    reservation = ask(place)
    assert reservation.state == State.CONFIRMED
    assert dt.timedelta(minutes=14) < reservation.starts_at - timezone.now() < dt.timedelta(minutes=16)
    borrowed.refresh_from_db()
    rest = Reservation.objects.get(continues=borrowed)
    assert borrowed.ends_at == reservation.starts_at
    assert rest.state == State.QUEUED and rest.starts_at >= reservation.ends_at


def test_a_pass_looks_only_at_pools_that_nobody_looked_at_lately(place):
    hold(place, now() - HOUR, 10)
    ask(place)
    assert pools_to_look_at() == []
    assert pools_to_look_at(timezone.now() + dt.timedelta(seconds=30)) == [place["pool"].pk]


def test_stored_reasons_and_estimates_are_what_the_same_rows_give_again(place):
    in_use = hold(place, now() - HOUR, 5, "4g.40gb", at=0)
    hold(place, now() + 7 * HOUR, 5, "3g.40gb", at=4)
    for profile, hours in (("7g.80gb", 2), ("3g.40gb", 9), ("1g.10gb", 30), ("4g.40gb", 3), ("7g.80gb", 1)):
        ask(place, profile, hours=hours)
    at = timezone.now() + dt.timedelta(minutes=1)
    serve_queue(place["pool"].pk, at)
    assert stored(place["pool"]) == worked_out(place["pool"], at.replace(microsecond=0))
    assert len(stored(place["pool"])) >= 3 and in_use.ends_at > at


@pytest.mark.parametrize("until", [None, "2026-11-17T12:00:00+00:00"])
@pytest.mark.parametrize("reason", ["", *Waits])
def test_every_reason_has_a_sentence_with_and_without_its_numbers(reason, until):
    at = now()
    full = {"ahead": 2, "tenant": "speech", "limit": 7, "held": 7, "asked": 1, "most": 3, "hours": "Mon 09:00"}
    for evidence in ({}, full):
        evidence = {**evidence, "until": until} if reason else {}
        wait = Wait(seconds=60, not_before=at, give_up_at=at + HOUR, reason=reason, evidence=evidence)
        sentence = reason_sentence(wait)
        assert sentence and "%(" not in sentence and "None" not in sentence


def test_leases_are_only_written_for_what_was_served(place):
    hold(place, now() - HOUR, 10)
    ask(place)
    assert Lease.objects.count() == 1
