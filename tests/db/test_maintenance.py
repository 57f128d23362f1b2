"""Maintenance: who is affected, what is moved, cut or taken out, and that its nodes go and come back."""

import datetime as dt

import pytest
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from agents.protocol import Report
from portal.audit.models import AuditEntry
from portal.inventory.models import Gpu, Node, NodeState
from portal.notices.models import Kind, Notice
from portal.notices.wording import words_of
from portal.reservations.agent_reports import apply_report
from portal.reservations.dispatch import desired_document
from portal.reservations.errors import NoAccess, NoCapacity, ReservationRefused, StateConflict
from portal.reservations.maintenance import (
    cancel_maintenance,
    change_maintenance,
    end_maintenance,
    plan_maintenance,
    preview_maintenance,
)
from portal.reservations.maintenance_effects import Affected
from portal.reservations.maintenance_sweep import run_maintenance
from portal.reservations.models import Lease, LeaseState, Reservation, State
from portal.reservations.sweeps import freeze_due
from portal.tenants.models import Role
from tests.db.test_booking import book
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_reservation, make_user, window

pytestmark = pytest.mark.django_db
MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def site():
    """Two nodes with a GPU each, a team, a platform admin, and now."""
    root, team, _below = make_org()
    pool = make_pool_with_gpus("H100", gpus=2, nodes=2)
    make_quota(root, pool, 14)
    first, second = Gpu.objects.order_by("pk")
    return {
        "tenant": team, "pool": pool, "owner": make_user(tenant=team), "root": root, "first": first, "second": second,
        "admin": make_user("ada", root, Role.ADMIN), "now": timezone.now().replace(microsecond=0),
    }  # fmt: skip


def plan(site, during, node="first", reason="new driver"):
    node = site[node].node if node else None
    return plan_maintenance(actor=site["admin"], node=node, pool=None, during=during, reason=reason)


def fates(affected: Affected) -> dict[int, str]:
    return {effect.reservation.pk: str(effect.fate) for effect in affected.effects}


def on(gpu) -> list[Lease]:
    return list(Lease.objects.filter(gpu=gpu, state__in=["planned", "starting", "active"]))


def hold(site, gpu="first", hours_from_now=24.0, hours=1.0, profile="3g.40gb", start=0, **more):
    during = window(site["now"] + hours_from_now * HOUR, hours)
    place = ((site[gpu], start),)
    return make_reservation(
        site["tenant"], site["pool"], profile, during, places=place, owner=site["owner"], **more)  # fmt: skip


def running(site, hours=4.0, gpu="first"):
    return hold(site, gpu, -1, hours, state=State.RUNNING, lease_state=LeaseState.ACTIVE, frozen_at=site["now"])


def test_what_has_not_started_is_moved_and_keeps_its_window_and_price(site):
    mine = hold(site)
    seen = preview_maintenance(site["first"].node, None, window(site["now"] + 20 * HOUR, 8))
    assert fates(seen) == {mine.pk: "moved"}
    assert on(site["first"])  # a look changes nothing
    _row, done = plan(site, window(site["now"] + 20 * HOUR, 8))
    assert fates(done) == fates(seen)
    (lease,) = on(site["second"])
    before = mine.during, mine.price_slice_seconds
    mine.refresh_from_db()
    assert (mine.during, mine.price_slice_seconds, mine.state) == (*before, State.CONFIRMED)
    assert lease.during == mine.during and on(site["first"]) == []
    assert Notice.objects.get(user=site["owner"]).facts["fate"] == "moved"


def test_all_ranks_move_or_none(site):
    both = make_reservation(
        site["tenant"], site["pool"], "4g.40gb", window(site["now"] + 24 * HOUR),
        places=((site["first"], 0), (site["second"], 0)), owner=site["owner"])  # fmt: skip
    _row, done = plan(site, window(site["now"] + 20 * HOUR, 8))
    assert fates(done) == {both.pk: "stays"}
    assert len(on(site["first"])) == len(on(site["second"])) == 1


def test_two_that_move_do_not_take_the_same_place(site):
    for start in (0, 4):
        hold(site, start=start)
    hold(site, "second", start=0)
    _row, done = plan(site, window(site["now"] + 20 * HOUR, 8))
    assert sorted(fates(done).values()) == ["moved", "stays"]
    assert len(on(site["second"])) == 2


def test_one_without_another_place_stays_booked_and_its_owner_is_led_to_ways_on(site):
    mine, _other = hold(site, profile="7g.80gb"), hold(site, "second", profile="7g.80gb")
    _row, done = plan(site, window(site["now"] + 20 * HOUR, 8))
    assert fates(done) == {mine.pk: "stays"}
    mine.refresh_from_db()
    assert mine.state == State.CONFIRMED and len(on(site["first"])) == 1
    notice = Notice.objects.get(user=site["owner"], kind=Kind.MAINTENANCE)
    assert notice.url == f"/maintenance/R-{mine.pk}/"
    assert "There is no other place" in words_of(notice).text and "new driver" in words_of(notice).text


def test_who_has_several_that_are_moved_is_told_once_of_all(site):
    for day in (1, 2, 3):
        hold(site, hours_from_now=24.0 * day)
    _row, done = plan(site, window(site["now"] + 20 * HOUR, 72))
    assert sorted(fates(done).values()) == ["moved"] * 3
    words = words_of(notice := Notice.objects.get(user=site["owner"], kind=Kind.MAINTENANCE))
    assert words.title == "Maintenance of n1 affects 3 of your reservations".replace("n1", site["first"].node.name)
    assert "They were given other places." in words.text and notice.url == "/reservations/?show=open"


def test_what_runs_over_its_start_is_cut_short_there_and_told(site):
    mine = running(site)
    starts = site["now"] + HOUR
    _row, done = plan(site, window(starts, 8))
    assert fates(done) == {mine.pk: "cut"}
    mine.refresh_from_db()
    assert mine.during.upper == starts == on(site["first"])[0].during.upper
    assert desired_document(site["first"].node_id).leases[0].ends_at == starts.timestamp()
    assert "It ends earlier" in words_of(Notice.objects.get(user=site["owner"])).text
    entry = AuditEntry.objects.get(action="reservation.displaced", subject=mine.number)
    assert (entry.actor, entry.after["end"]) == (site["admin"], starts.isoformat())


def test_a_maintenance_that_begins_at_once_leaves_the_notice_to_who_runs(site, settings):
    mine = running(site)
    row, _done = plan(site, window(site["now"], 8))
    mine.refresh_from_db()
    assert mine.during.upper == row.stops_at >= site["now"] + settings.DISPLACE_NOTICE
    run_maintenance(row.stops_at - MINUTE)
    assert on(site["first"])[0].state == LeaseState.ACTIVE
    assert Node.objects.get(pk=site["first"].node_id).state == NodeState.MAINTENANCE


def test_what_its_node_knows_of_is_handed_to_another_only_once_it_is_free(site):
    mine = hold(site, hours_from_now=1, frozen_at=site["now"])
    plan(site, window(site["now"] + HOUR / 2, 8))
    (new,) = on(site["second"])
    assert freeze_due() == 0
    new.refresh_from_db()
    assert new.frozen_at is None
    node = Node.objects.get(pk=site["first"].node_id)
    apply_report(node.pk, Report(node.generation, (), (), ()), timezone.now())
    assert freeze_due() == 1
    mine.refresh_from_db()
    assert mine.state == State.CONFIRMED


def test_what_its_node_knows_of_and_has_no_other_place_waits_in_the_queue(site):
    mine = hold(site, hours_from_now=1, frozen_at=site["now"], profile="7g.80gb")
    hold(site, "second", hours_from_now=1, profile="7g.80gb")
    _row, done = plan(site, window(site["now"] + HOUR / 2, 8))
    assert fates(done) == {mine.pk: "displaced"}
    rest = Reservation.objects.get(continues=mine)
    assert (rest.state, rest.wait.seconds) == (State.QUEUED, 3600)
    node = Node.objects.get(pk=site["first"].node_id)
    apply_report(node.pk, Report(node.generation, (), (), ()), timezone.now())
    mine.refresh_from_db()
    assert (mine.state, mine.end_reason) == (State.ENDED, "displaced")


def test_nothing_new_is_placed_into_it_and_the_time_around_it_is_free(site):
    starts = site["now"] + 24 * HOUR
    plan(site, window(starts, 2), node=None)
    with pytest.raises(NoCapacity):
        book(site, start=starts + HOUR)
    book(site, start=starts - HOUR)
    book(site, start=starts + 2 * HOUR)


def test_while_a_node_is_in_maintenance_the_time_after_it_can_be_booked(site):
    Gpu.objects.filter(pk=site["second"].pk).update(state="faulty")
    row, _done = plan(site, window(site["now"], 2))
    run_maintenance()
    assert Node.objects.get(pk=site["first"].node_id).state == NodeState.MAINTENANCE
    mine = book(site, start=row.during.upper)
    assert mine.leases.get().gpu == site["first"]


def test_its_node_goes_and_comes_back_by_the_clock(site):
    row, _done = plan(site, window(site["now"] + HOUR, 2))
    node = site["first"].node
    for when, state in ((0.5, "ready"), (1, "maintenance"), (2.9, "maintenance"), (3, "ready")):
        run_maintenance(site["now"] + when * HOUR)
        node.refresh_from_db()
        assert node.state == state, when
        assert run_maintenance(site["now"] + when * HOUR) == 0  # nothing is left to do
    row.refresh_from_db()
    assert (row.started_at, row.ended_at) == (site["now"] + HOUR, site["now"] + 3 * HOUR)


def test_passes_that_were_missed_for_three_days_end_in_the_same(site):
    row, _done = plan(site, window(site["now"] + HOUR, 2))
    run_maintenance(site["now"] + HOUR)
    run_maintenance(site["now"] + 72 * HOUR)
    other, _done = plan(site, window(site["now"] + HOUR, 2))
    run_maintenance(site["now"] + 72 * HOUR)
    for one in (row, other):
        one.refresh_from_db()
        assert one.ended_at == one.during.upper
    assert Node.objects.get(pk=site["first"].node_id).state == NodeState.READY


def test_a_node_under_two_maintenances_returns_when_the_last_is_over(site):
    plan(site, window(site["now"] + HOUR, 2))
    plan(site, window(site["now"] + 2 * HOUR, 2), node=None)
    states = []
    for hours in (1, 2, 3, 4):
        run_maintenance(site["now"] + hours * HOUR)
        states.append(Node.objects.get(pk=site["first"].node_id).state)
    assert states == ["maintenance", "maintenance", "maintenance", "ready"]


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.DRAINING, NodeState.MAINTENANCE])
def test_what_an_operator_wants_of_a_node_stays_after_it(site, state):
    Node.objects.filter(pk=site["first"].node_id).update(state=state)
    plan(site, window(site["now"] + HOUR, 2))
    for hours in (1, 3):
        run_maintenance(site["now"] + hours * HOUR)
        assert Node.objects.get(pk=site["first"].node_id).state == state


def test_a_silent_node_is_left_alone_and_returns_when_it_is_heard(site):
    plan(site, window(site["now"] + HOUR, 2))
    node = Node.objects.filter(pk=site["first"].node_id)
    run_maintenance(site["now"] + HOUR)
    node.update(silent_since=site["now"])
    run_maintenance(site["now"] + 3 * HOUR)
    assert node.get().state == NodeState.MAINTENANCE
    assert AuditEntry.objects.get(action="maintenance.ended").after["left_alone"] == {node.get().name: "silent"}
    node.update(silent_since=None)
    run_maintenance(site["now"] + 4 * HOUR)
    assert node.get().state == NodeState.READY


def test_a_node_that_was_retired_meanwhile_stays_retired(site):
    plan(site, window(site["now"] + HOUR, 2))
    run_maintenance(site["now"] + HOUR)
    Node.objects.filter(pk=site["first"].node_id).update(state=NodeState.RETIRED)
    run_maintenance(site["now"] + 3 * HOUR)
    assert Node.objects.get(pk=site["first"].node_id).state == NodeState.RETIRED


def test_what_is_left_when_nothing_may_run_any_more_is_taken_out_and_told(site):
    hold(site, "second", hours_from_now=2, hours=3, profile="7g.80gb")
    mine = hold(site, hours_from_now=3, profile="7g.80gb")
    row, done = plan(site, window(site["now"] + 2 * HOUR, 8))
    assert fates(done) == {mine.pk: "stays"}
    run_maintenance(row.stops_at - MINUTE)
    mine.refresh_from_db()
    assert mine.state == State.CONFIRMED
    run_maintenance(row.stops_at)
    mine.refresh_from_db()
    assert (mine.state, mine.end_reason) == (State.ENDED, "displaced")
    assert Reservation.objects.filter(continues=mine, state=State.QUEUED).exists()
    assert [one.facts["fate"] for one in Notice.objects.order_by("pk")] == ["stays", "displaced"]


def test_a_longer_maintenance_affects_who_comes_to_lie_in_it_and_tells_nobody_twice(site):
    held = [hold(site, gpu, hours, profile="7g.80gb") for gpu in ("first", "second") for hours in (24, 30)]
    row, _done = plan(site, window(site["now"] + 23 * HOUR, 3))
    row, done = change_maintenance(actor=site["admin"], maintenance=row, ends_at=site["now"] + 32 * HOUR)
    assert fates(done) == {held[1].pk: "stays"}
    assert Notice.objects.filter(kind=Kind.MAINTENANCE).count() == 2
    row, done = change_maintenance(actor=site["admin"], maintenance=row, ends_at=site["now"] + 26 * HOUR)
    assert fates(done) == {}
    with pytest.raises(ReservationRefused):
        change_maintenance(actor=site["admin"], maintenance=row, ends_at=site["now"] + 22 * HOUR)


def test_it_is_cancelled_before_it_begins_and_ended_after(site):
    ahead, _done = plan(site, window(site["now"] + HOUR, 2))
    with pytest.raises(StateConflict):
        end_maintenance(actor=site["admin"], maintenance=ahead)
    assert cancel_maintenance(actor=site["admin"], maintenance=ahead).cancelled_at
    now, _done = plan(site, window(site["now"], 2))
    run_maintenance()
    with pytest.raises(StateConflict):
        cancel_maintenance(actor=site["admin"], maintenance=now)
    assert end_maintenance(actor=site["admin"], maintenance=now).ended_at
    assert Node.objects.get(pk=site["first"].node_id).state == NodeState.READY
    with pytest.raises(StateConflict):
        end_maintenance(actor=site["admin"], maintenance=now)
    actions = list(AuditEntry.objects.filter(action__startswith="maintenance.").values_list("action", flat=True))
    assert sorted(actions) == [f"maintenance.{one}" for one in ("cancelled", "ended", "planned", "planned", "started")]


@pytest.mark.parametrize("reason, during", [
    ("", (1, 2)), ("x" * 201, (1, 2)), ("a\0b", (1, 2)), ("past", (-1, 2)), ("long", (1, 24 * 400)),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_and_stores_nothing(site, reason, during):
    from_now, hours = during
    with pytest.raises(ReservationRefused):
        plan(site, window(site["now"] + from_now * HOUR, hours), reason=reason)
    assert not AuditEntry.objects.filter(action="maintenance.planned").exists()


def test_only_a_platform_admin_plans_it(site):
    site["admin"] = make_user(tenant=site["tenant"], role=Role.ADMIN)
    with pytest.raises(NoAccess):
        plan(site, DateTimeTZRange(site["now"], site["now"] + HOUR, "[)"))
