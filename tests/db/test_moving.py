"""Changing one's mind: extend, shorten, move and rename, as one object whatever its number of leases."""

import datetime as dt
import json

import pytest
from django.db import InternalError, connection, transaction
from django.test import Client
from django.utils import timezone

from portal.audit.models import AuditEntry
from portal.inventory.models import Node, NodeState
from portal.ledger.models import LedgerEntry
from portal.notices.models import Notice
from portal.quotas.policy_changes import set_policy
from portal.reservations.changing import release_reservation
from portal.reservations.dispatch import desired_document
from portal.reservations.errors import (
    BudgetExceeded,
    NoCapacity,
    PolicyRefused,
    QuotaExceeded,
    ReservationRefused,
    StateConflict,
    WindowRefused,
    WorkloadRefused,
)
from portal.reservations.models import Lease, Reservation, State
from portal.reservations.moving import change_reservation, rename_reservation
from portal.reservations.outlook import outlook_around, peak_below
from portal.reservations.selectors import peak_weight_held
from portal.reservations.spending_sums import Asked, sums_of
from portal.reservations.sweeps import freeze_due
from tests.db.house import MINUTE, House, bound, observe, places, span, tell, windows
from tests.factories import HOUR, make_budget, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def house():
    return House()


@pytest.fixture
def small():
    """One GPU on one node."""
    return House(gpus=1)


def handed_out(lease: Lease) -> dict[int, tuple[float, float]]:
    document = desired_document(lease.gpu.node_id)
    return {each.lease_id: (each.starts_at, each.ends_at) for each in document.leases}


def test_extending_a_running_one_changes_its_end_in_place_and_its_node_is_told(house):
    running = house.run(house.book("3g.40gb", start=house.now, ranks=2))
    before, generation = places(running), Node.objects.get().generation
    end = running.during.upper + HOUR
    changed = house.change(running, end=end)
    assert places(changed) == before and windows(changed) == {(house.now, end)} and changed.during.upper == end
    assert Node.objects.get().generation > generation
    assert {ends for _starts, ends in handed_out(bound(changed)[0]).values()} == {end.timestamp()}
    assert AuditEntry.objects.filter(action="reservation.end_changed", subject=changed.number).count() == 1


def test_an_extension_into_the_next_lease_says_until_when_the_place_is_free(small):
    running = small.run(small.book("4g.40gb", start=small.now))
    (lease,) = bound(running)
    follower = small.book("7g.80gb", start=running.during.upper + HOUR)
    with pytest.raises(NoCapacity) as refused:
        small.change(running, end=running.during.upper + 2 * HOUR)
    free_until = follower.during.lower
    assert refused.value.evidence == {"free_until": free_until.isoformat()} and refused.value.field == "end"
    assert f"{timezone.localtime(free_until):%H:%M}" in refused.value.message
    assert windows(running) == {(lease.during.lower, lease.during.upper)}
    small.change(running, end=free_until)


@pytest.mark.case("R-12")
def test_shortening_a_running_one_returns_exactly_the_rest(small):
    running = small.run(small.book("7g.80gb", start=small.now, hours=3))
    promised = [Asked(small.team.path, small.now, small.now + 9 * HOUR)]
    now = timezone.now()
    before = sums_of(promised, now)[0]
    running = small.change(running, end=small.now + HOUR)
    after = sums_of(promised, now)[0]
    assert (before.committed - after.committed, before.spent) == (7 * 2 * 3600, after.spent)
    small.book("7g.80gb", start=small.now + HOUR, hours=2)
    assert handed_out(bound(running)[0])[bound(running)[0].pk] == (
        small.now.timestamp(), (small.now + HOUR).timestamp())  # fmt: skip


def test_what_runs_can_be_shortened_whatever_was_narrowed_meanwhile(house):
    running = house.run(house.book("7g.80gb", start=house.now, hours=6))
    house.root.quotas.update(limit=1)
    set_policy(actor=house.admin, tenant=house.root, longest_window_seconds=3600, approval_above_slice_seconds=0)
    make_budget(house.team, 0)
    assert house.change(running, end=house.now + 5 * HOUR).during.upper == house.now + 5 * HOUR
    with pytest.raises(ReservationRefused):
        house.change(running, end=house.now + 6 * HOUR)


@pytest.mark.case("V-18")
def test_the_start_of_what_runs_cannot_be_moved(house):
    running = house.run(house.book(start=house.now, hours=2))
    for start in (house.now - HOUR, house.now + HOUR):
        with pytest.raises(StateConflict, match="has started") as refused:
            house.change(running, start=start)
        assert refused.value.field == "start"
    house.change(running, end=house.now + 3 * HOUR)
    release_reservation(reservation=running, actor=house.owner)


@pytest.mark.case("V-17")
def test_a_new_start_of_a_future_one_moves_it_and_is_checked_for_conflicts(small):
    mine = small.book("7g.80gb")
    other = small.book("7g.80gb", start=small.start + 4 * HOUR)
    with pytest.raises(NoCapacity):
        small.change(mine, start=other.during.lower, end=other.during.upper)
    assert windows(mine) == {(small.start, small.start + HOUR)}
    moved = small.change(mine, start=small.start + 5 * HOUR, end=small.start + 6 * HOUR)
    assert (
        windows(moved)
        == {(small.start + 5 * HOUR, small.start + 6 * HOUR)}
        == {(moved.during.lower, moved.during.upper)}
    )
    assert small.book("7g.80gb")


@pytest.mark.case("V-17")
def test_another_name_is_saved_and_an_impossible_one_is_bad_input(house):
    mine = house.book()
    rename_reservation(reservation=mine, name="unet 15", actor=house.owner)
    mine.workload.refresh_from_db()
    assert mine.workload.name == "unet 15"
    for name in ("", "   ", "x" * 65, "a\nb"):
        with pytest.raises(WorkloadRefused) as refused:
            rename_reservation(reservation=mine, name=name, actor=house.owner)
        assert refused.value.status == 422 and refused.value.field == "name"
    entry = AuditEntry.objects.get(action="reservation.renamed")
    assert (entry.before, entry.after) == ({"name": "train"}, {"name": "unet 15"})


def test_name_and_window_change_together_or_not_at_all(house):
    mine = house.book()
    later = span(house.start + HOUR, 1)
    with pytest.raises(WorkloadRefused):
        change_reservation(reservation=mine, actor=house.owner, during=later, name="")
    mine.refresh_from_db()
    assert mine.during.lower == house.start


def test_a_move_stays_where_it_is_if_it_can_and_else_takes_another_place(house):
    mine = house.book("7g.80gb")
    before = places(mine)
    mine = house.change(mine, start=house.start + HOUR, end=house.start + 2 * HOUR)
    assert places(mine) == before
    for blocker in (house.book("7g.80gb", start=house.start + 8 * HOUR) for _ in range(2)):
        if places(blocker) != before:
            release_reservation(reservation=blocker, actor=house.owner)
    moved = house.change(mine, start=house.start + 8 * HOUR, end=house.start + 9 * HOUR)
    assert places(moved) != before and len(places(moved)) == 1
    release_reservation(reservation=moved, actor=house.owner)
    moved.refresh_from_db()
    assert moved.state == State.CANCELLED, "what a move left behind never ran"


@pytest.mark.case("R-04")
def test_all_seven_ranks_move_or_none(house):
    gang = house.book("1g.10gb", ranks=7)
    moved = house.change(gang, start=house.start + 9 * HOUR, end=house.start + 11 * HOUR)
    assert len(bound(moved)) == 7
    assert windows(moved) == {(house.start + 9 * HOUR, house.start + 11 * HOUR)}
    house.book("7g.80gb", start=house.start + 20 * HOUR)
    house.book("4g.40gb", start=house.start + 20 * HOUR)
    with pytest.raises(NoCapacity):
        house.change(moved, start=house.start + 20 * HOUR, end=house.start + 21 * HOUR)
    assert windows(moved) == {(house.start + 9 * HOUR, house.start + 11 * HOUR)}


def fail_at_rank(rank: int) -> None:
    """From now on the database takes no change of a lease of that rank."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION pg_temp.break_down() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER break_down BEFORE INSERT OR UPDATE ON reservations_lease FOR EACH ROW "
            f"WHEN (NEW.rank = {rank}) EXECUTE FUNCTION pg_temp.break_down()"
        )


@pytest.mark.case("R-04")
@pytest.mark.parametrize("how", ["same place", "new place", "withdrawn and bound anew", "released"])
def test_a_fault_after_the_third_row_leaves_nothing_changed(how):
    house = House(gpus=4, nodes=2)
    soon = how == "withdrawn and bound anew"
    gang = house.book("1g.10gb", start=house.now + HOUR if soon else house.start, ranks=7)
    new = gang.during.lower + 5 * HOUR
    if how == "new place":
        house.book("7g.80gb", start=new, ranks=3)
    before = list(Lease.objects.order_by("pk").values()), list(Reservation.objects.order_by("pk").values())
    audit = AuditEntry.objects.count()
    fail_at_rank(3)
    with pytest.raises(InternalError, match="the disk is full"), transaction.atomic():
        if how == "released":
            release_reservation(reservation=gang, actor=house.owner)
        else:
            house.change(gang, start=new, end=new + HOUR)
    after = list(Lease.objects.order_by("pk").values()), list(Reservation.objects.order_by("pk").values())
    assert after == before and AuditEntry.objects.count() == audit


def test_moving_a_frozen_one_withdraws_it_and_starts_anew_once_the_old_place_is_free(house):
    soon = house.book("3g.40gb", start=house.now + HOUR)
    (old,) = bound(soon)
    assert old.frozen_at is not None
    moved = house.change(soon, start=house.now + 90 * MINUTE, end=house.now + 150 * MINUTE)
    (new,) = bound(moved)
    old.refresh_from_db()
    assert (old.state, old.end_reason, new.state) == ("stopping", "moved", "planned")
    assert places(moved) != [(old.gpu_id, old.span.lower, old.span.upper)]
    assert handed_out(old) == {}, "neither the old one nor, while that may still start, the new one"
    assert freeze_due() == 0
    moved = house.change(moved, start=house.now + 100 * MINUTE, end=house.now + 160 * MINUTE)  # moving again works
    observe(old)
    old.refresh_from_db()
    assert old.state == "ended" and freeze_due() == 1
    (new,) = bound(moved)
    assert list(handed_out(new)) == [new.pk]
    moved.refresh_from_db()
    assert moved.state == State.CONFIRMED


def test_a_rank_that_was_moved_counts_once_while_its_old_place_is_being_freed(house):
    soon = house.book("7g.80gb", start=house.now + HOUR)
    house.change(soon, start=house.now + 90 * MINUTE, end=house.now + 150 * MINUTE)
    around = span(house.now, 5)
    assert peak_weight_held(house.root, house.pool, around) == 7
    seen = outlook_around(house.team, around, house.now, pool=house.pool)
    assert peak_below(house.root.path, around, seen.pools[house.pool.pk].holdings) == 7
    assert not any(view.held == () for view in seen.pools[house.pool.pk].views), "both places are held"


def test_an_agent_that_starts_the_old_place_before_it_hears_of_the_move_makes_nothing_run(house):
    soon = house.book("3g.40gb", start=house.now + MINUTE)
    (old,) = bound(soon)
    moved = house.change(soon, start=house.now + HOUR, end=house.now + 2 * HOUR)
    later = house.now + 2 * MINUTE
    tell(old, "active", house.now + MINUTE, received_at=later)
    moved.refresh_from_db()
    assert moved.state == State.CONFIRMED and moved.running_at is None
    tell(old, "freed", later, received_at=later, reason="withdrawn")
    old.refresh_from_db()
    moved.refresh_from_db()
    assert (old.state, moved.state) == ("ended", State.CONFIRMED)
    assert list(LedgerEntry.objects.values_list("kind", flat=True)) == ["opened", "closed"]
    (new,) = bound(moved)
    Lease.objects.filter(pk=new.pk).update(frozen_at=later)
    tell(new, "active", house.now + HOUR, received_at=house.now + HOUR)
    tell(new, "freed", house.now + 2 * HOUR, received_at=house.now + 2 * HOUR, reason="window_over")
    moved.refresh_from_db()
    assert (moved.state, moved.end_reason) == (State.ENDED, "completed"), "the lease it left tells nothing of its end"


def test_a_frozen_one_on_a_full_pool_is_told_why_it_cannot_move(small):
    soon = small.book("7g.80gb", start=small.now + HOUR)
    with pytest.raises(NoCapacity, match="another place than its own"):
        small.change(soon, start=small.now + 90 * MINUTE, end=small.now + 150 * MINUTE)
    assert small.change(soon, end=small.now + 3 * HOUR).during.upper == small.now + 3 * HOUR


@pytest.mark.case("R-01")
def test_a_change_into_the_past_is_refused(house):
    mine = house.book()
    with pytest.raises(WindowRefused) as refused:
        house.change(mine, start=house.now - 5 * HOUR, end=house.now + HOUR)
    assert refused.value.field == "start" and refused.value.status == 422
    running = house.run(house.book(start=house.now, hours=2))
    with pytest.raises(WindowRefused, match="in the past") as refused:
        house.change(running, end=house.now - dt.timedelta(seconds=1))
    assert refused.value.field == "end"
    assert windows(running) == {(house.now, house.now + 2 * HOUR)}


def test_a_change_obeys_quota_budget_and_policy_as_a_booking_does(house):
    mine = house.book("4g.40gb")
    house.book("4g.40gb", start=house.start + HOUR)
    house.root.quotas.update(limit=4)
    with pytest.raises(QuotaExceeded):
        house.change(mine, end=house.start + 2 * HOUR)
    house.root.quotas.update(limit=100)
    set_policy(actor=house.admin, tenant=house.root, longest_window_seconds=2 * 3600)
    house.change(mine, end=house.start + 2 * HOUR)
    mine.refresh_from_db()
    with pytest.raises(WindowRefused):
        house.change(mine, end=house.start + 3 * HOUR)
    make_budget(house.team, 4 * 4 * 3600)
    set_policy(actor=house.admin, tenant=house.root, longest_window_seconds=None)
    with pytest.raises(BudgetExceeded):
        house.change(mine, end=house.start + 3 * HOUR + 5 * MINUTE)
    house.change(mine, start=house.start - HOUR, end=house.start + 2 * HOUR)


def test_what_a_lead_approved_may_move_but_not_grow_without_one(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=7 * 3600)
    mine = house.book("7g.80gb", hours=4, by=house.lead)
    mine = house.change(mine, start=house.start + HOUR, end=house.start + 5 * HOUR)
    mine = house.change(mine, end=house.start + 4 * HOUR)
    with pytest.raises(PolicyRefused) as refused:
        house.change(mine, end=house.start + 5 * HOUR)
    assert refused.value.evidence == {"asked_slice_seconds": 7 * 4 * 3600, "threshold_slice_seconds": 7 * 3600}
    changed = house.change(mine, end=house.start + 5 * HOUR, by=house.lead)
    told = Notice.objects.get(user=house.owner, kind="changed")
    assert changed.during.upper == house.start + 5 * HOUR and told.facts["by"] == "lead"


def test_a_node_that_is_being_emptied_extends_nothing(small):
    running = small.run(small.book("7g.80gb", start=small.now))
    Node.objects.update(state=NodeState.DRAINING)
    with pytest.raises(NoCapacity, match="takes no lease"):
        small.change(running, end=small.now + 2 * HOUR)
    Node.objects.update(state=NodeState.CORDONED)
    small.change(running, end=small.now + 2 * HOUR)


def finished(house: House) -> Reservation:
    done = house.run(house.book(start=house.now))
    (lease,) = bound(done)
    tell(lease, "freed", timezone.now(), reason="exited", exit_code=0)
    done.refresh_from_db()
    assert done.state == State.ENDED
    return done


@pytest.mark.case("R-02", "V-19")
def test_what_is_finished_is_immutable_for_everybody_by_every_verb(house):
    done = finished(house)
    ledger = list(LedgerEntry.objects.values())
    rows = list(Reservation.objects.values()), list(Lease.objects.values()), AuditEntry.objects.count()
    address = f"/api/v1/reservations/{done.pk}/"
    later = {"end": (house.now + 3 * HOUR).isoformat()}
    for person in (house.owner, house.lead, house.admin):
        client = Client()
        client.force_login(person)
        changes = (later, {"name": "other"}, {"start": (house.now + HOUR).isoformat(), **later})
        verbs = [client.patch(address, json.dumps(body), content_type="application/json") for body in changes]
        verbs += [client.post(f"{address}{verb}/") for verb in ("release", "cancel")] + [client.delete(address)]
        assert [answer.status_code for answer in verbs] == [409] * 6
        assert {answer.json()["code"] for answer in verbs} == {"state_conflict"}
        assert client.put(address, json.dumps(later), content_type="application/json").status_code == 405
    assert list(LedgerEntry.objects.values()) == ledger
    assert (list(Reservation.objects.values()), list(Lease.objects.values()), AuditEntry.objects.count()) == rows


@pytest.mark.case("V-20")
def test_somebody_elses_reservation_does_not_exist(house):
    mine = house.book(owner=house.lead)
    stranger, colleague = make_user("stranger"), house.owner
    for person, known in ((stranger, False), (colleague, True)):
        client = Client()
        client.force_login(person)
        nothing = client.patch("/api/v1/reservations/987654321/", "{}", content_type="application/json")
        for body in ({"name": "other"}, {"end": (house.start + 2 * HOUR).isoformat()}, {"nonsense": 1}):
            answer = client.patch(f"/api/v1/reservations/{mine.pk}/", json.dumps(body), content_type="application/json")
            assert (answer.status_code, answer.content) == (404, nothing.content)
        answer = client.delete(f"/api/v1/reservations/{mine.pk}/")
        assert (answer.status_code, answer.content) == (404, nothing.content)
        assert client.get(f"/api/v1/reservations/{mine.pk}/").status_code == (200 if known else 404)
    mine.refresh_from_db()
    assert mine.state == State.CONFIRMED and windows(mine) == {(house.start, house.start + HOUR)}


@pytest.mark.case("V-21")
def test_deleting_what_runs_is_refused_and_giving_back_is_offered(house):
    running = house.run(house.book(start=house.now))
    client = Client()
    client.force_login(house.owner)
    answer = client.delete(f"/api/v1/reservations/{running.pk}/")
    assert answer.status_code == 409 and "release it instead" in answer.json()["message"]
    assert answer.json()["evidence"] == {"release": f"/api/v1/reservations/{running.pk}/release/"}
    running.refresh_from_db()
    assert running.state == State.RUNNING
    client.force_login(house.admin)
    assert client.post(answer.json()["evidence"]["release"]).status_code == 200
    assert {lease.state for lease in running.leases.all()} == {"stopping"}
