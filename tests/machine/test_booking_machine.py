"""Everything people, leads, sweeps and agents do to bookings, in any order, with what must stay true after each step.

The seeds are fixed, so that a run can be repeated; ``BERTH_MACHINE_SEED`` sets the first of four, and
``BERTH_MACHINE_EXAMPLES`` how many walks each of them takes; 25 make a hundred, in four minutes on two cores.
"""

import datetime as dt
import os
import random
from collections import Counter
from typing import ClassVar

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Node
from portal.quotas.errors import QuotaRefused
from portal.quotas.models import Budget, Policy, Quota
from portal.quotas.services import set_budget, set_quota
from portal.reservations import approving, sweeps
from portal.reservations.booking import book_reservation
from portal.reservations.cancelling import cancel_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import UNDER_WAY, Approval, Reservation, State
from portal.reservations.moving import change_window
from portal.reservations.queue_serving import serve_queue
from portal.reservations.queueing import queue_request
from portal.reservations.waitlist import accept_offer, decline_offer, join_waitlist, lapse_offers
from portal.tenants.models import Role
from portal.workloads.drafts import WorkloadDraft
from tests.factories import make_org, make_pool_with_gpus, make_tenant, make_user, profile_of
from tests.machine import invariants
from tests.machine.node_model import NodeModel

SEED = int(os.environ.get("BERTH_MACHINE_SEED", "20261130"))
EXAMPLES = int(os.environ.get("BERTH_MACHINE_EXAMPLES", "8"))
STEPS = 50
# A failing walk is named at once by its seed and steps; BERTH_MACHINE_SHRINK=1 looks for a shorter one, for minutes.
PHASES = [Phase.generate, *([Phase.shrink] if os.environ.get("BERTH_MACHINE_SHRINK") else [])]
NOON = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
MINUTE = dt.timedelta(minutes=1)
RATHER_SOON = st.integers(0, 40).map(lambda quarter: 15 * quarter)
LENGTH = st.integers(1, 16).map(lambda quarter: 15 * quarter)


class Bookings(RuleBasedStateMachine):
    """Two teams under one root share a pool of two GPUs; the first has a sub-team, a threshold and a budget."""

    now = NOON
    seen: ClassVar[Counter] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self._undo = transaction.atomic()
        self._undo.__enter__()
        type(self).now = NOON
        self.root, self.team, self.project = make_org()
        self.other = make_tenant("acoustics", self.root)
        self.admin = make_user("admin", self.root, Role.ADMIN)
        self.leads = [make_user("lead", tenant, Role.LEAD) for tenant in (self.team, self.other)]
        self.tenants = [self.team, self.project, self.other]
        self.members = [make_user("member", tenant) for tenant in self.tenants]
        self.pool = make_pool_with_gpus("H100", gpus=2, nodes=2)
        for tenant, guaranteed, limit in ((self.root, 14, 14), (self.team, 6, 14), (self.project, 2, 10),
                                          (self.other, 7, 12)):  # fmt: skip
            Quota.objects.create(tenant=tenant, pool=self.pool, guaranteed=guaranteed, limit=limit)
        Policy.objects.create(tenant=self.project, approval_above_slice_seconds=2 * 3600)
        Budget.objects.create(tenant=self.team, slice_seconds=60 * 3600)
        self.nodes = [NodeModel(pk, random.Random(SEED)) for pk in Node.objects.values_list("pk", flat=True)]
        self.cut_quotas: set[int] = set()
        self.cut_budgets: set[int] = set()
        self.over: dict[int, tuple] = {}
        self.changed = True
        self.generations: dict[int, int] = {}

    def teardown(self) -> None:
        for state, reason in Reservation.objects.values_list("state", "end_reason"):
            self.seen[reason or state] += 1
        transaction.set_rollback(True)
        self._undo.__exit__(None, None, None)

    @rule(who=st.integers(0, 2), profile=st.sampled_from(PROFILES), ranks=st.integers(1, 2), start=RATHER_SOON,
          length=LENGTH, by_lead=st.booleans())  # fmt: skip
    def book(self, who: int, profile: str, ranks: int, start: int, length: int, by_lead: bool) -> None:
        member = self.members[who]
        creator = self.leads[1 if who == 2 else 0] if by_lead else member
        begin = self.now + start * MINUTE
        self.attempt(lambda: book_reservation(
            created_by=creator, owner=member, tenant=self.tenants[who], pool=self.pool,
            profile=profile_of(self.pool, profile), ranks=ranks,
            during=DateTimeTZRange(begin, begin + length * MINUTE, "[)"),
            workload=WorkloadDraft("training", command=("train",))))  # fmt: skip

    @rule(who=st.integers(0, 2), profile=st.sampled_from(PROFILES), length=LENGTH)
    def book_now(self, who: int, profile: str, length: int) -> None:
        self.book(who=who, profile=profile, ranks=1, start=0, length=length, by_lead=True)

    @rule(data=st.data(), count=st.integers(3, 4))
    def crowd_an_afternoon(self, data: st.DataObject, count: int) -> None:
        """Many for the same hours, a few hours ahead: somebody borrows, somebody claims."""
        for _ in range(count):
            self.book(
                who=data.draw(st.integers(0, 2)), profile=data.draw(st.sampled_from(PROFILES[1:])), ranks=1, length=120,
                start=180 + data.draw(st.integers(0, 4)) * 30, by_lead=data.draw(st.booleans()))  # fmt: skip

    @rule(who=st.integers(0, 2), profile=st.sampled_from(PROFILES), length=LENGTH)
    def queue(self, who: int, profile: str, length: int) -> None:
        member = self.members[who]
        self.attempt(lambda: queue_request(
            created_by=member, owner=member, tenant=self.tenants[who], pool=self.pool,
            profile=profile_of(self.pool, profile), ranks=1, seconds=length * 60,
            workload=WorkloadDraft("training", command=("train",))))  # fmt: skip

    @rule(who=st.integers(0, 2), profile=st.sampled_from(PROFILES), start=RATHER_SOON, length=LENGTH)
    def wait_for_a_window(self, who: int, profile: str, start: int, length: int) -> None:
        member, begin = self.members[who], self.now + start * MINUTE
        self.attempt(lambda: join_waitlist(
            created_by=member, owner=member, tenant=self.tenants[who], pool=self.pool,
            profile=profile_of(self.pool, profile), ranks=1,
            during=DateTimeTZRange(begin, begin + length * MINUTE, "[)"),
            workload=WorkloadDraft("training", command=("train",))))  # fmt: skip

    @rule(pick=st.integers(0, 9), yes=st.booleans())
    def answer_an_offer(self, pick: int, yes: bool) -> None:
        offered = Reservation.objects.filter(state=State.QUEUED, hold_expires_at__isnull=False)
        chosen = list(offered.select_related("owner", "pool").order_by("pk"))
        if chosen:
            one, service = chosen[pick % len(chosen)], accept_offer if yes else decline_offer
            self.attempt(lambda: service(reservation=one, actor=one.owner))

    @rule(pick=st.integers(0, 50), start=RATHER_SOON, length=LENGTH)
    def move(self, pick: int, start: int, length: int) -> None:
        if (chosen := self.one_of(pick)) is not None:
            begin = self.now + start * MINUTE
            self.attempt(lambda: change_window(
                reservation=chosen, during=DateTimeTZRange(begin, begin + length * MINUTE, "[)"),
                actor=chosen.owner))  # fmt: skip

    @rule(pick=st.integers(0, 50), minutes=st.integers(-8, 8).map(lambda quarter: 15 * quarter))
    def change_end(self, pick: int, minutes: int) -> None:
        chosen = self.one_of(pick)
        if chosen is not None and chosen.during.upper + minutes * MINUTE > chosen.during.lower:
            during = DateTimeTZRange(chosen.during.lower, chosen.during.upper + minutes * MINUTE, "[)")
            self.attempt(lambda: change_window(reservation=chosen, during=during, actor=chosen.owner))

    @rule(pick=st.integers(0, 50), cancel=st.booleans())
    def give_back(self, pick: int, cancel: bool) -> None:
        if (chosen := self.one_of(pick)) is not None:
            service = cancel_reservation if cancel else release_reservation
            self.attempt(lambda: service(reservation=chosen, actor=chosen.owner))

    @precondition(lambda self: Approval.objects.filter(decision="").exists())
    @rule(pick=st.integers(0, 9), yes=st.booleans())
    def decide(self, pick: int, yes: bool) -> None:
        questions = list(Approval.objects.filter(decision="").order_by("pk"))
        question = questions[pick % len(questions)]
        if yes:
            self.attempt(lambda: approving.approve(approval=question, actor=self.leads[0]))
        else:
            self.attempt(lambda: approving.refuse(approval=question, actor=self.leads[0], note="not now"))

    @rule(minutes=st.sampled_from((1, 5, 15, 45, 120, 600)))
    def tick(self, minutes: int) -> None:
        """Time goes by in small steps; sweeps and agents do their rounds in each."""
        for _ in range(2):
            type(self).now += minutes * MINUTE / 2
            self.round()

    @rule(minutes=st.integers(1, 30))
    def wait_a_little(self, minutes: int) -> None:
        self.tick(minutes=minutes)

    @rule()
    def round(self) -> None:
        for sweep in (sweeps.freeze_due, approving.expire_approvals, sweeps.end_overdue):
            sweep(self.now)
        lapse_offers(self.now)
        serve_queue(self.pool.pk, self.now)
        for node in self.nodes:
            node.step(self.now)
        self.changed = True

    @rule(which=st.integers(0, 3), guaranteed=st.integers(0, 14), limit=st.integers(0, 16))
    def change_quota(self, which: int, guaranteed: int, limit: int) -> None:
        tenant = [self.root, *self.tenants][which]
        if self.attempt(lambda: set_quota(
                actor=self.admin, tenant=tenant, pool=self.pool, guaranteed=guaranteed, limit=limit)):  # fmt: skip
            self.cut_quotas |= set(Quota.objects.values_list("pk", flat=True))

    @rule(hours=st.integers(0, 80))
    def change_budget(self, hours: int) -> None:
        if self.attempt(lambda: set_budget(
                actor=self.admin, tenant=self.team, period="month", slice_seconds=hours * 3600)):  # fmt: skip
            self.cut_budgets |= set(Budget.objects.values_list("pk", flat=True))

    @rule(which=st.integers(0, 2), on=st.booleans())
    def disable_tenant(self, which: int, on: bool) -> None:
        self.changed = True
        type(self.tenants[which]).objects.filter(pk=self.tenants[which].pk).update(closed_at=self.now if on else None)
        self.tenants[which].refresh_from_db()

    def one_of(self, pick: int) -> Reservation | None:
        """Mostly one under way; now and then one that is over, which must refuse everything."""
        rows = Reservation.objects.select_related("owner", "pool").order_by("pk")
        chosen = list(rows if pick % 7 == 0 else rows.filter(state__in=UNDER_WAY))
        return chosen[pick % len(chosen)] if chosen else None

    def attempt(self, work) -> bool:
        """A refusal is an answer; anything else that is raised is a fault."""
        try:
            work()
        except (ReservationRefused, QuotaRefused):
            return False
        self.changed = True
        return True

    @invariant()
    def what_must_be_true(self) -> None:
        if not self.changed:  # a refusal changed nothing: what held before it holds still
            return
        self.changed = False
        invariants.check_no_slice_is_shared()
        invariants.check_no_quota_is_exceeded(self.cut_quotas)
        invariants.check_the_ledger_brackets_each_lease()
        invariants.check_every_state_has_a_way_out()
        invariants.check_no_budget_is_overdrawn(self.now, self.cut_budgets)
        invariants.check_what_is_over_stays_as_it_was(self.over)

    @invariant()
    def generations_rise(self) -> None:
        for pk, generation in Node.objects.values_list("pk", "generation"):
            assert self.generations.get(pk, 0) <= generation
            self.generations[pk] = generation


@pytest.mark.timeout(900)
@pytest.mark.django_db
@pytest.mark.parametrize("chosen_seed", range(SEED, SEED + 4))
def test_whatever_is_done_to_bookings_every_promise_holds(chosen_seed, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: Bookings.now)
    chosen = settings(
        max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, print_blob=True, phases=PHASES, database=None,
        suppress_health_check=list(HealthCheck))  # fmt: skip
    Bookings.seen.clear()
    run_state_machine_as_test(seed(chosen_seed)(Bookings), settings=chosen)
    reached = {"confirmed", "cancelled", "queued"}
    if EXAMPLES >= 100:
        reached |= {"running", "completed", "displaced", "refused", "requested", "released"}
    assert reached <= set(Bookings.seen), f"the walks never came to {reached - set(Bookings.seen)}"
