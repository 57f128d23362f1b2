"""Approval of what costs more than a tenant's threshold: held, decided by a lead, or let go in time."""

import datetime as dt
import json

import pytest
from django.test import Client

from portal.notices.models import Notice
from portal.quotas.policy_changes import set_policy
from portal.reservations.approving import approve, expire_approvals, refuse
from portal.reservations.changing import release_reservation
from portal.reservations.dispatch import desired_document
from portal.reservations.errors import NoCapacity, NoteMissing, StateConflict
from portal.reservations.models import Approval, Lease, Reservation, State
from portal.reservations.spending_sums import Asked, sums_of
from portal.reservations.sweeps import end_overdue, freeze_due
from portal.tenants.models import Role
from tests.db.house import MINUTE, House, bound
from tests.factories import HOUR, make_tenant, make_user

pytestmark = pytest.mark.django_db
THRESHOLD = 7 * 3600


@pytest.fixture
def house():
    """vision-lab asks its leads above one whole GPU for one hour."""
    house = House(gpus=1)
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=THRESHOLD)
    return house


def asked(house: House, hours: float = 2, **more) -> Reservation:
    held = house.book("7g.80gb", hours=hours, **more)
    assert held.state == State.REQUESTED
    return held


def client_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def answer(person, approval, verb: str, note: str = "no room"):
    address = f"/api/v1/approvals/{approval.pk}/{verb}/"
    return client_of(person).post(address, json.dumps({"note": note}), content_type="application/json")


def test_exactly_the_threshold_needs_nobody_and_a_second_more_needs_a_lead(house):
    assert house.book("7g.80gb", hours=1).state == State.CONFIRMED
    held = house.book("7g.80gb", start=house.start + 3 * HOUR, hours=1 + 1 / 3600)
    question = Approval.objects.get()
    assert (held.state, held.approval, held.hold_expires_at) == (State.REQUESTED, question, question.expires_at)
    assert (question.price_slice_seconds, question.threshold_slice_seconds) == (THRESHOLD + 7, THRESHOLD)
    assert question.asked_by == house.owner and question.expires_at <= held.during.lower


def test_the_leads_are_told_and_nobody_else(house):
    held = asked(house)
    told = Notice.objects.get()
    assert (told.user, told.kind, told.reservation_id) == (house.lead, "approval_wanted", held.pk)


def test_a_leads_own_request_and_one_for_a_member_need_none(house):
    assert house.book("7g.80gb", hours=2, owner=house.lead).state == State.CONFIRMED
    assert house.book("7g.80gb", start=house.start + 3 * HOUR, hours=2, by=house.lead).state == State.CONFIRMED
    assert not Approval.objects.exists()


def test_a_hold_keeps_the_place_and_its_price_but_is_never_frozen_nor_handed_out(house):
    held = asked(house, start=house.now + 30 * MINUTE)
    with pytest.raises(NoCapacity):
        house.book("1g.10gb", start=held.during.lower)
    promised = sums_of([Asked(house.team.path, held.during.lower, held.during.upper)], house.now)
    assert promised[0].committed == 2 * THRESHOLD
    assert freeze_due(held.during.lower) == 0
    (lease,) = bound(held)
    assert lease.frozen_at is None and desired_document(lease.gpu.node_id).leases == ()


def test_approval_makes_it_a_promise_that_is_frozen_when_it_is_near(house):
    held = asked(house, start=house.now + 30 * MINUTE)
    approve(approval=held.approval, actor=house.lead, note="go on")
    held.refresh_from_db()
    (lease,) = bound(held)
    assert (held.state, held.hold_expires_at) == (State.CONFIRMED, None)
    assert lease.frozen_at is not None
    assert [each.lease_id for each in desired_document(lease.gpu.node_id).leases] == [lease.pk]
    told = Notice.objects.get(user=house.owner)
    assert (told.kind, told.facts["by"], told.facts["note"]) == ("approved", "lead", "go on")
    far = asked(house)
    approve(approval=far.approval, actor=house.lead)
    assert bound(far)[0].frozen_at is None


def test_refusal_gives_the_place_back_and_tells_why(house):
    held = asked(house)
    with pytest.raises(NoteMissing):
        refuse(approval=held.approval, actor=house.lead, note="  ")
    refuse(approval=held.approval, actor=house.lead, note="the deadline is another team's")
    held.refresh_from_db()
    assert (held.state, held.end_detail) == (State.REFUSED, "the deadline is another team's")
    told = Notice.objects.get(user=house.owner)
    assert (told.kind, told.facts["note"]) == ("refused", "the deadline is another team's")
    house.book("7g.80gb")


def test_what_nobody_answers_expires_once_and_frees_its_hold(house):
    held = asked(house)
    late = held.approval.expires_at
    assert expire_approvals(late - dt.timedelta(seconds=1)) == 0
    assert expire_approvals(late) == 1
    assert expire_approvals(late) == 0
    held.refresh_from_db()
    held.approval.refresh_from_db()
    assert (held.state, held.approval.decision, held.approval.decided_by) == (State.REFUSED, "expired", None)
    assert Notice.objects.filter(user=house.owner, kind="approval_expired").count() == 1
    house.book("7g.80gb")


def test_after_the_time_to_decide_nobody_can_approve_any_more(house):
    held = asked(house)
    Approval.objects.update(expires_at=house.now)
    with pytest.raises(StateConflict, match="time to decide is over"):
        approve(approval=held.approval, actor=house.lead)
    held.refresh_from_db()
    assert held.state == State.REQUESTED


def test_the_second_lead_to_decide_is_told_what_the_first_decided(house):
    held, other = asked(house), make_user("other-lead", house.team, Role.LEAD)
    assert answer(house.lead, held.approval, "approve").status_code == 200
    for verb in ("approve", "refuse"):
        second = answer(other, held.approval, verb)
        assert second.status_code == 409 and "approved" in second.json()["message"]
    held.refresh_from_db()
    assert held.state == State.CONFIRMED


def test_a_request_that_its_owner_cancels_takes_its_question_with_it(house):
    held = asked(house)
    release_reservation(reservation=held, actor=house.owner)
    held.refresh_from_db()
    held.approval.refresh_from_db()
    assert (held.state, held.approval.decision) == (State.CANCELLED, "withdrawn")
    assert answer(house.lead, held.approval, "approve").status_code == 409
    held.refresh_from_db()
    assert held.state == State.CANCELLED and not bound(held)


def test_a_held_one_cannot_be_changed_until_it_is_decided(house):
    held = asked(house)
    with pytest.raises(StateConflict, match="once it is confirmed"):
        house.change(held, end=held.during.upper - HOUR)


def test_only_leads_of_the_tenant_see_and_answer_its_questions(house):
    held = asked(house)
    elsewhere = make_user("elsewhere", make_tenant("robotics", house.root), Role.LEAD)
    for person in (house.owner, elsewhere):
        assert client_of(person).get("/api/v1/approvals/").json()["results"] == []
        assert [answer(person, held.approval, verb).status_code for verb in ("approve", "refuse")] == [404, 404]
    for person in (house.lead, house.admin):
        (row,) = client_of(person).get("/api/v1/approvals/").json()["results"]
        assert (row["id"], row["reservations"][0]["number"]) == (held.approval_id, held.number)
    assert answer(house.lead, held.approval, "refuse", "").status_code == 422
    assert answer(house.lead, held.approval, "refuse").json()["decision"] == "refused"
    assert client_of(house.lead).get("/api/v1/approvals/").json()["results"] == []
    assert len(client_of(house.lead).get("/api/v1/approvals/?open=false").json()["results"]) == 1


@pytest.mark.case("R-22")
@pytest.mark.parametrize("sweeps", [(end_overdue, expire_approvals), (expire_approvals, end_overdue)])
def test_every_state_past_its_end_reaches_a_final_one_however_late_the_sweeps(house, sweeps):
    """Held, confirmed and never handed out, running, and one that lost its leases unseen; the sweeps were down."""
    held = asked(house)
    confirmed = house.book("1g.10gb", start=house.start + 5 * HOUR)
    bare = house.book("1g.10gb", start=house.start + 6 * HOUR)
    Lease.objects.filter(reservation=bare).update(state="ended", ended_at=house.now)
    Approval.objects.update(expires_at=house.start + 90 * HOUR)
    Reservation.objects.filter(pk=held.pk).update(hold_expires_at=house.start + 90 * HOUR)
    three_days_later = house.start + 80 * HOUR
    for sweep in sweeps:
        sweep(three_days_later)
    states = dict(Reservation.objects.values_list("pk", "state"))
    assert states == {held.pk: State.REFUSED, confirmed.pk: State.ENDED, bare.pk: State.ENDED}
    assert not Lease.objects.filter(state__in=["planned", "starting", "active", "stopping"]).exists()
    assert not Approval.objects.filter(decision="").exists()
    assert [sweep(three_days_later) for sweep in sweeps] == [0, 0]


def test_a_question_about_several_stays_open_while_one_of_them_waits(house):
    first, second = asked(house), asked(house, start=house.start + 10 * HOUR)
    Reservation.objects.filter(pk=second.pk).update(approval=first.approval)
    Approval.objects.filter(pk=second.approval_id).update(decision="withdrawn", decided_at=house.now)
    release_reservation(reservation=first, actor=house.owner)
    first.approval.refresh_from_db()
    assert first.approval.decision == ""
    approve(approval=first.approval, actor=house.lead)
    second.refresh_from_db()
    first.refresh_from_db()
    assert (first.state, second.state) == (State.CANCELLED, State.CONFIRMED)
