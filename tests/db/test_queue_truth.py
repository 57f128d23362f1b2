"""Estimates and reasons are true: worked out again they are the same, and every estimate is reached or beaten."""

import datetime as dt
import random

import pytest
from django.db import transaction
from django.utils import timezone

from portal.inventory.models import Gpu
from portal.reservations import queue_serving
from portal.reservations.models import LIVE, Lease, LeaseState, Reservation, State, Wait
from portal.reservations.queue_board import Board
from portal.reservations.queue_serving import planned_in, serve_queue
from portal.reservations.queueing import queue_request
from portal.workloads.drafts import WorkloadDraft
from tests.factories import (
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_tenant,
    make_user,
    profile_of,
    record,
)

pytestmark = pytest.mark.django_db
MINUTE = dt.timedelta(minutes=1)
RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))
PROFILES = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
MINUTES = [30, 60, 90, 240, 600]


class Clockwork:
    """A pool whose leases begin and end by a clock that the test turns, with the ledger that agents would write."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        root, *_rest = make_org()
        self.pool = make_pool_with_gpus("H100", 2)
        make_quota(root, self.pool, 14)
        self.tenants = [make_tenant(name, root) for name in ("speech", "robots", "biology")]
        for tenant, (guaranteed, limit) in zip(self.tenants, [(7, 14), (3, 10), (0, 7)], strict=True):
            make_quota(tenant, self.pool, limit, guaranteed)
        self.people = {tenant.pk: make_user(tenant=tenant) for tenant in self.tenants}
        self.now = timezone.now().replace(microsecond=0) + MINUTE

    def ask(self) -> Reservation:
        tenant = self.chance.choice(self.tenants)
        return queue_request(
            created_by=self.people[tenant.pk], owner=self.people[tenant.pk], tenant=tenant, pool=self.pool,
            profile=profile_of(self.pool, self.chance.choice(PROFILES)), ranks=1,
            seconds=60 * self.chance.choice(MINUTES), workload=RUN)  # fmt: skip

    def turn_to(self, at: dt.datetime) -> None:
        self.now = at
        for lease in Lease.objects.filter(state__in=LIVE).select_related("reservation__profile"):
            begins, ends = lease.during.lower <= at, lease.during.upper <= at
            if begins and lease.active_at is None:
                record(lease, "opened", lease.during.lower)
                Lease.objects.filter(pk=lease.pk).update(state=LeaseState.ACTIVE, active_at=lease.during.lower)
            if ends:
                record(lease, "closed", lease.during.upper)
                Lease.objects.filter(pk=lease.pk).update(state=LeaseState.ENDED, ended_at=lease.during.upper)
        serve_queue(self.pool.pk, at)

    def next_moment(self) -> dt.datetime | None:
        ends = Lease.objects.filter(state__in=LIVE, during__endswith__gt=self.now).values_list("during", flat=True)
        return min((during.upper for during in ends), default=None)

    def stored(self) -> dict:
        rows = Wait.objects.filter(reservation__state=State.QUEUED)
        return {row.reservation_id: (row.estimated_at, row.reason, row.evidence) for row in rows}

    def worked_out(self) -> dict:
        return {
            one.reservation.pk: (one.during.lower if one.during else None, one.reason, one.evidence)
            for one in planned_in(self.pool, self.now)
        }


def run_out(seed: int) -> None:
    """Fourteen requests, and the clock from one end of a lease to the next, until nobody waits any more."""
    clockwork = Clockwork(seed)
    for _ in range(14):
        clockwork.ask()
    assert not Gpu.objects.exclude(pool=clockwork.pool).exists()
    promised: dict[int, dt.datetime] = {}
    at: dt.datetime | None = clockwork.now
    while at is not None and Wait.objects.exists():
        clockwork.turn_to(at)
        stored = clockwork.stored()
        assert stored == clockwork.worked_out(), f"seed {seed} at {at}"
        for key, (estimate, reason, _evidence) in stored.items():
            assert reason and estimate is not None, f"seed {seed}: R-{key} waits for {reason!r}"
            assert estimate <= promised.get(key, estimate), f"seed {seed} at {at}: R-{key} was put off for {reason}"
            promised[key] = estimate
        at = clockwork.next_moment()
    assert promised, "somebody has to wait"
    assert not Wait.objects.exists(), "everybody is served in the end"
    for key, estimate in promised.items():
        assert Reservation.objects.get(pk=key).during.lower <= estimate, f"seed {seed}: R-{key} started late"


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    monkeypatch.setattr(queue_serving, "PASS_SECONDS", 120.0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_stored_is_true_at_every_step_and_every_estimate_is_kept(seed):
    run_out(seed)


@pytest.mark.timeout(600)
def test_control_when_nothing_is_kept_free_for_those_ahead_somebody_is_put_off(monkeypatch):
    monkeypatch.setattr(Board, "plan", lambda *_anything: None)
    with pytest.raises(AssertionError, match="was put off|started late"):
        for seed in range(6):
            with transaction.atomic():
                run_out(seed)
                transaction.set_rollback(True)
