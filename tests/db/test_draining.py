"""A node by hand, and GPUs that fail: what has not started is moved, what runs ends in its time."""

import datetime as dt

import pytest
from django.utils import timezone

from agents.protocol import Report
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Gpu, GpuState, Node, NodeState
from portal.notices.models import Notice
from portal.reservations.agent_reports import apply_report
from portal.reservations.draining import is_empty, preview_service, set_service
from portal.reservations.errors import NoAccess, NoCapacity, WindowRefused
from portal.reservations.maintenance_sweep import run_maintenance
from portal.reservations.models import Lease, LeaseState, State
from portal.reservations.replacing_sweep import replace_from_unusable
from portal.tenants.models import Role
from tests.db.test_booking import book
from tests.db.test_maintenance import fates, hold, on, plan, running, site
from tests.factories import HOUR, make_user, window

pytestmark = pytest.mark.django_db
__all__ = ["site"]


def drain(site, until=None, state=NodeState.DRAINING):
    return set_service(actor=site["admin"], node=site["first"].node, state=state, until=until)


def node_of(site, gpu="first") -> Node:
    return Node.objects.get(pk=site[gpu].node_id)


def acknowledge(node: Node) -> None:
    """Its agent has observed its newest generation and has nothing on its GPUs."""
    apply_report(node.pk, Report(node.generation, (), (), ()), timezone.now())


def test_a_cordoned_node_takes_nothing_new_and_keeps_what_it_has(site):
    mine = hold(site)
    _node, affected = drain(site, state=NodeState.CORDONED)
    assert affected.effects == () and on(site["first"])
    assert replace_from_unusable() == 0
    assert book(site).leases.get().gpu == site["second"]
    mine.refresh_from_db()
    assert mine.state == State.CONFIRMED


def test_draining_moves_what_has_not_started_and_lets_the_rest_run_out(site):
    later, now = hold(site), running(site)
    seen = preview_service(site["first"].node, NodeState.DRAINING)
    _node, affected = drain(site)
    assert fates(affected) == fates(seen) == {later.pk: "moved", now.pk: "runs"}
    (left,) = on(site["first"])
    assert left.reservation == now and left.during == now.during
    assert not is_empty(node_of(site))
    Lease.objects.filter(pk=left.pk).update(state=LeaseState.ENDED)
    run_maintenance(site["now"] + 100 * HOUR)
    assert is_empty(node_of(site)) and node_of(site).state == NodeState.DRAINING  # until somebody puts it back
    drain(site, state=NodeState.READY)
    assert node_of(site).state == NodeState.READY


def test_at_its_deadline_a_drain_ends_what_still_runs_which_was_told(site, settings):
    mine = running(site)
    until = site["now"] + HOUR
    _node, affected = drain(site, until)
    assert fates(affected) == {mine.pk: "cut"}
    mine.refresh_from_db()
    assert mine.during.upper == until
    assert Notice.objects.get(user=site["owner"]).facts["fate"] == "cut"
    run_maintenance(until)
    assert on(site["first"])[0].state == LeaseState.ACTIVE  # its node ends it by its own clock
    Lease.objects.update(during=window(site["now"] - HOUR, 9))  # one that would go on all the same
    run_maintenance(until)
    assert Lease.objects.get().state == LeaseState.STOPPING
    acknowledge(node_of(site))


def test_a_deadline_leaves_the_notice_to_who_runs(site, settings):
    mine = running(site)
    drain(site, timezone.now() + dt.timedelta(seconds=5))
    mine.refresh_from_db()
    assert mine.during.upper >= site["now"] + settings.DISPLACE_NOTICE
    assert node_of(site).drain_until == mine.during.upper


def test_what_had_no_other_place_is_moved_as_soon_as_there_is_one(site):
    mine, other = hold(site, profile="7g.80gb"), hold(site, "second", profile="7g.80gb")
    _node, affected = drain(site)
    assert fates(affected) == {mine.pk: "stays"}
    assert replace_from_unusable() == 0
    Lease.objects.filter(reservation=other).update(state=LeaseState.ENDED)
    assert replace_from_unusable() == 1
    assert [lease.reservation for lease in on(site["second"])] == [mine]
    assert replace_from_unusable() == 0


@pytest.mark.case("R-20")
def test_at_each_step_of_being_stopped_only_what_is_at_rest_counts_as_free(site):
    """A frozen lease is withdrawn by the drain: planned, stopping, ended. The node is put back meanwhile."""
    site["pool"].gpus.filter(pk=site["second"].pk).update(state=GpuState.FAULTY)
    mine = hold(site, hours_from_now=1, profile="7g.80gb", frozen_at=site["now"])
    when = mine.during.lower
    with pytest.raises(NoCapacity):
        book(site, start=when)
    drain(site, site["now"] + HOUR / 2)
    assert mine.leases.get().state == LeaseState.STOPPING
    drain(site, state=NodeState.READY)
    with pytest.raises(NoCapacity):
        book(site, start=when)
    acknowledge(node_of(site))
    assert mine.leases.get().state == LeaseState.ENDED
    assert book(site, start=when).leases.get().gpu == site["first"]


@pytest.mark.case("T-07")
@pytest.mark.parametrize("told", [False, True])
def test_what_is_booked_on_a_gpu_that_fails_is_moved(site, told):
    mine = hold(site, hours_from_now=1, frozen_at=site["now"] if told else None)
    Gpu.objects.filter(pk=site["first"].pk).update(state=GpuState.FAULTY, fault="XID 79")
    assert replace_from_unusable() == 1
    (lease,) = on(site["second"])
    assert (lease.reservation, lease.during) == (mine, mine.during)
    assert replace_from_unusable() == 0


def test_who_has_no_other_place_than_a_gpu_that_failed_is_told_once(site):
    mine = hold(site, profile="7g.80gb")
    Gpu.objects.update(state=GpuState.FAULTY, fault="XID 79")
    assert [replace_from_unusable() for _ in range(3)] == [1, 0, 0]
    notice = Notice.objects.get(user=site["owner"])
    assert (notice.facts["reason"], notice.reservation_id) == ("XID 79", mine.pk)


def test_a_silent_node_keeps_what_starts_much_later(site, settings):
    later, soon = hold(site, hours_from_now=24), hold(site, hours_from_now=2.1)
    Node.objects.filter(pk=site["first"].node_id).update(silent_since=site["now"])
    assert replace_from_unusable() == 1
    assert [lease.reservation for lease in on(site["first"])] == [later]
    assert [lease.reservation for lease in on(site["second"])] == [soon]


def test_a_node_in_planned_maintenance_keeps_what_lies_after_it(site):
    mine = hold(site, hours_from_now=24)
    plan(site, window(site["now"], 2))
    run_maintenance()
    assert replace_from_unusable() == 0
    assert [lease.reservation for lease in on(site["first"])] == [mine]


def test_a_node_in_planned_maintenance_is_put_back_by_ending_that(site):
    plan(site, window(site["now"], 2))
    run_maintenance()
    with pytest.raises(InventoryRefused, match="End that first"):
        drain(site, state=NodeState.READY)
    drain(site, state=NodeState.CORDONED)
    run_maintenance(site["now"] + 2 * HOUR)
    assert node_of(site).state == NodeState.CORDONED


def test_what_makes_no_sense_is_refused(site):
    with pytest.raises(WindowRefused):
        drain(site, site["now"] - HOUR)
    with pytest.raises(WindowRefused):
        drain(site, site["now"] + HOUR, NodeState.CORDONED)
    site["admin"] = make_user(tenant=site["tenant"], role=Role.ADMIN)
    with pytest.raises(NoAccess):
        drain(site)
    assert node_of(site).state == NodeState.READY
