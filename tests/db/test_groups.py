"""Groups of whole GPUs on the portal's side: told as one, ended as one, begun again in the same places."""

import datetime as dt

import pytest
from django.utils import timezone

from agents.protocol import LeaseEvent, Report, decode_from_portal, encode, event_id
from portal.inventory.models import Gpu, NodeState
from portal.ledger.models import LedgerEntry
from portal.reservations.agent_reports import apply_report
from portal.reservations.dispatch import desired_document
from portal.reservations.group_endings import end_lost_groups
from portal.reservations.group_facts import nodes_beside
from portal.reservations.models import BOUND, Lease, LeaseState, State
from portal.reservations.sweeps import end_overdue, freeze_due
from portal.reservations.writing_off import write_off_node
from portal.workloads.models import RankLoss
from tests.factories import make_org, make_pool_with_gpus, make_reservation, make_user, window

pytestmark = pytest.mark.django_db
SPANS = 8


@pytest.fixture
def group():
    """Three whole GPUs on two nodes, ranks 0 and 2 on the first: planned, frozen, its window has just begun."""
    root, team, _ = make_org()
    pool = make_pool_with_gpus("L40S", gpus=4, nodes=2)
    for number, node in enumerate(pool.nodes.order_by("pk")):
        node.cluster_address, node.driver_version = f"10.0.0.{number + 1}", "570.86"
        node.save()
    first, third, second, _spare = Gpu.objects.filter(pool=pool).order_by("pk")
    now = timezone.now().replace(microsecond=0)
    return make_reservation(
        team, pool, "full", window(now), places=((first, 0), (second, 0), (third, 0)), frozen_at=now,
        owner=make_user("rosa", team))  # fmt: skip


def ranks_of(group) -> list[Lease]:
    """The lease that serves or last served each rank."""
    newest = {lease.rank: lease for lease in group.leases.select_related("gpu").order_by("pk")}
    return [newest[rank] for rank in sorted(newest)]


def say(lease: Lease, kind: str, reason: str = "", **more) -> None:
    event = LeaseEvent(id=event_id(lease.pk, kind, 0), lease_id=lease.pk, kind=kind, reason=reason,
                       at=timezone.now().timestamp(), **more)
    apply_report(lease.gpu.node_id, Report(10**6, (), (event,), ()), timezone.now())


def run(group) -> None:
    for lease in ranks_of(group):
        say(lease, "starting")
        say(lease, "active")


def states(group) -> list[str]:
    return [str(lease.state) for lease in ranks_of(group)]


def allow_restarts(group, most: int) -> None:
    workload = group.workload
    workload.rank_loss, workload.restarts_most = RankLoss.RESTART, most
    workload.save()


def handed(node_id: int) -> set[int]:
    return {lease.lease_id for lease in desired_document(node_id).leases}


def test_each_node_is_told_of_the_group_as_it_sees_it(group):
    first, second, third = ranks_of(group)
    one = {each.lease_id: each.group for each in desired_document(first.gpu.node_id).leases}
    (other,) = (each.group for each in desired_document(second.gpu.node_id).leases)
    assert one[first.pk] == one[third.pk]
    document = desired_document(second.gpu.node_id)
    assert decode_from_portal(encode(document)) == document
    assert [each.lease_id for each in one[first.pk].here] == [first.pk, third.pk]
    assert [(node.address, node.gpus) for node in other.nodes] == [("10.0.0.1", 2), ("10.0.0.2", 1)]
    assert (one[first.pk].node_rank, other.node_rank, other.world_size) == (0, 1, 3)
    assert (other.master_port, other.watch_port, other.secret) == (
        one[first.pk].master_port, one[first.pk].watch_port, one[first.pk].secret)
    assert nodes_beside(first.gpu.node_id) == {first.gpu.node_id, second.gpu.node_id}


def test_a_rank_is_not_handed_out_before_all_have_a_place(group):
    first, second, _ = ranks_of(group)
    Lease.objects.filter(pk=second.pk).update(state=LeaseState.STOPPING, end_reason="restarted")
    assert handed(first.gpu.node_id) == set()


def test_slices_of_gpus_with_mig_are_no_group():
    _root, team, _ = make_org()
    pool = make_pool_with_gpus("H100", gpus=1)
    gpu = Gpu.objects.get(pool=pool)
    now = timezone.now()
    booked = make_reservation(team, pool, "1g.10gb", window(now), places=((gpu, 0), (gpu, 1)), frozen_at=now)
    assert {each.group for each in desired_document(gpu.node_id).leases} == {None}
    first, second = ranks_of(booked)
    say(first, "active")
    say(second, "active")
    say(first, "freed", "exited", exit_code=1)
    assert states(booked) == ["ended", "active"]


def test_what_keeps_the_ranks_apart_ends_the_group_unbilled_with_a_sentence_in_the_readers_language(group, client):
    first, second, third = ranks_of(group)
    for lease in (first, second, third):
        say(lease, "starting")
    say(second, "failed", "port_taken", detail="node-1: 29500")
    assert states(group) == ["stopping", "failed", "stopping"]
    assert handed(first.gpu.node_id) == set()
    for lease in (first, third):
        say(lease, "freed", "withdrawn")
    group.refresh_from_db()
    assert (group.state, group.end_reason) == (State.ENDED, "failed")
    assert group.end_detail == "The port that the ranks meet on is taken by another program: node-1: 29500."
    assert not LedgerEntry.objects.exists()
    type(group.owner).objects.filter(pk=group.owner.pk).update(language="zh-hant")
    client.force_login(group.owner)
    page = client.get(f"/reservations/{group.number}/").content.decode()
    assert "：node-1: 29500" in page
    assert "The port that the ranks meet on" not in page


@pytest.mark.parametrize(
    ("kind", "facts", "reason"),
    [("freed", {"reason": "exited", "exit_code": 1}, "failed"),
     ("stopping", {"reason": "peer_lost", "detail": "node-0"}, "node_lost")])
def test_a_lost_rank_ends_the_others(group, kind, facts, reason):
    run(group)
    first, second, third = ranks_of(group)
    before = first.gpu.node.generation
    say(second, kind, **facts)
    assert states(group)[0::2] == ["stopping", "stopping"]
    first.gpu.node.refresh_from_db()
    assert first.gpu.node.generation > before
    for lease in (first, second, third):
        say(lease, "freed", **{"reason": "withdrawn"} if lease != second else facts)
    group.refresh_from_db()
    assert (group.state, group.end_reason) == (State.ENDED, reason)
    assert LedgerEntry.objects.filter(kind="closed").count() == 3


def test_a_rank_that_ends_well_ends_nobody_else(group):
    run(group)
    say(ranks_of(group)[0], "freed", "exited", exit_code=0)
    assert states(group) == ["ended", "active", "active"]
    assert handed(ranks_of(group)[1].gpu.node_id) == {ranks_of(group)[1].pk}
    assert end_lost_groups() == 0


def test_a_group_that_may_begin_again_does_so_in_the_same_places_until_it_has_had_its_restarts(group):
    allow_restarts(group, 1)
    run(group)
    before = ranks_of(group)
    secret = desired_document(before[0].gpu.node_id).leases[0].group.secret
    say(before[1], "freed", "exited", exit_code=1)
    assert [lease.state for lease in before[1].reservation.leases.filter(rank=1).order_by("pk")] == ["ended", "planned"]
    assert handed(before[1].gpu.node_id) == set(), "the others are not free yet"
    freeze_due()
    assert handed(before[1].gpu.node_id) == set()
    for lease in (before[0], before[2]):
        say(lease, "freed", "peer_failed", detail="node-1 1")
    after = ranks_of(group)
    assert [lease.gpu_id for lease in after] == [lease.gpu_id for lease in before]
    assert {lease.pk for lease in after}.isdisjoint(lease.pk for lease in before)
    group.refresh_from_db()
    assert (group.state, group.workload.restarts) == (State.RUNNING, 1)
    told = desired_document(after[0].gpu.node_id).leases
    assert {each.lease_id for each in told} == {after[0].pk, after[2].pk}
    assert (told[0].group.epoch, told[0].group.secret != secret) == (1, True)
    run(group)
    assert states(group) == ["active"] * 3
    for lease in ranks_of(group):
        say(lease, "freed", "exited", exit_code=1)
    group.refresh_from_db()
    assert (group.state, group.end_reason) == (State.ENDED, "failed")
    assert LedgerEntry.objects.filter(kind="closed").count() == 6


def test_what_was_given_back_does_not_begin_again(group):
    allow_restarts(group, 3)
    run(group)
    first, second, third = ranks_of(group)
    for lease in (first, second, third):
        Lease.objects.filter(pk=lease.pk).update(state=LeaseState.STOPPING, withdrawn_generation=1)
    for lease in (first, second, third):
        say(lease, "freed", "peer_withdrawn", detail="node-0")
    group.refresh_from_db()
    assert (group.state, group.end_reason, group.workload.restarts) == (State.ENDED, "released", 0)


def test_a_machine_that_was_written_off_ends_its_groups_whatever_the_policy(group):
    allow_restarts(group, 3)
    run(group)
    first, second, _ = ranks_of(group)
    node = second.gpu.node
    node.silent_since = timezone.now()
    node.save()
    write_off_node(actor=make_user("ada"), node=node)
    node.refresh_from_db()
    assert node.state == NodeState.RETIRED
    assert states(group) == ["active", "ended", "active"]
    assert end_lost_groups() == 1
    assert end_lost_groups() == 0
    assert states(group) == ["stopping", "ended", "stopping"]
    assert not group.leases.filter(state__in=BOUND).exists()
    assert handed(first.gpu.node_id) == set()


def test_ranks_do_not_wait_for_ever_for_a_node_that_does_not_come_back(group, settings):
    allow_restarts(group, 3)
    run(group)
    first, _second, third = ranks_of(group)
    for lease in (first, third):
        say(lease, "stopping", "peer_lost", detail="node-1")
        say(lease, "freed", "peer_lost", detail="node-1")
    assert states(group) == ["planned", "stopping", "planned"]
    freeze_due()
    end_overdue(timezone.now() + settings.STARTING_DEADLINE + dt.timedelta(seconds=1))
    assert not group.leases.filter(state__in=BOUND).exists()
