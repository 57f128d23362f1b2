"""Groups of whole GPUs stay near each other, slices are no group, and a pin is kept."""

import pytest
from django.utils import timezone

from portal.inventory.models import Gpu, Node
from portal.reservations.group_facts import is_group
from portal.reservations.models import Lease, Reservation
from portal.reservations.pool_calendar import looking_at
from portal.tenants.models import Role
from tests.db.test_api import RUNS, Program
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_user, window

pytestmark = pytest.mark.django_db


@pytest.fixture
def team():
    return make_org()[1]


@pytest.fixture
def pool(team):
    """Six nodes of two GPUs; the first and the last stand in one rack."""
    pool = make_pool_with_gpus("L40S", gpus=12, nodes=6)
    make_quota(team.parent, pool, limit=1000)
    nodes = list(Node.objects.order_by("pk"))
    Node.objects.filter(pk__in=[nodes[0].pk, nodes[5].pk]).update(rack="r1")
    return pool


@pytest.fixture
def ask(team):
    program = Program(make_user("mia", team, Role.MEMBER))

    def asked(pool, ranks, profile="full", **more):
        start = timezone.now() + 30 * HOUR
        body = {"tenant": team.pk, "pool": pool.pk, "profile": profile, "ranks": ranks, "workload": RUNS,
                "start": start.isoformat(), "end": (start + HOUR).isoformat(), **more}  # fmt: skip
        return program.post("reservations/", body)

    return asked


def nodes_of(answer):
    rows = Lease.objects.filter(reservation=answer.json()["id"]).values_list("gpu__node", flat=True)
    return set(rows)


def test_a_group_is_booked_within_a_rack_and_what_is_told_of_racks_later_counts_at_once(pool, ask):
    first, second, *_others, last = Node.objects.order_by("pk")
    booked = ask(pool, 4)
    assert booked.status_code == 201
    assert nodes_of(booked) == {first.pk, last.pk}
    assert (booked.json()["together"], booked.json()["node"]) == (None, None)
    Node.objects.exclude(pk__in=[first.pk, second.pk, last.pk]).update(rack="r2")
    assert second.pk not in nodes_of(ask(pool, 4))


def test_of_a_node_the_linked_gpus_are_booked(team, ask):
    pool = make_pool_with_gpus("L40S", gpus=4)
    make_quota(team.parent, pool, limit=1000)
    with looking_at(pool, timezone.now()):
        one, _two, _three, four = Gpu.objects.order_by("index")
    Gpu.objects.filter(pk=one.pk).update(links={four.uuid: "NV4"})
    Gpu.objects.filter(pk=four.pk).update(links={one.uuid: "NV4", "GPU-of-another-pool": "NV4"})
    booked = ask(pool, 2)
    assert set(Lease.objects.filter(reservation=booked.json()["id"]).values_list("gpu", flat=True)) == {one.pk, four.pk}


def test_the_ranks_of_a_group_and_what_is_pinned_do_not_move(pool, ask):
    node = Node.objects.order_by("pk")[2]
    group, alone, loose = ask(pool, 2), ask(pool, 1, node=node.pk), ask(pool, 2, together=False)
    single = ask(pool, 1)
    with looking_at(pool, timezone.now()) as picture:
        movable = {row.reservation_id for row in picture.leases.values() if row.movable}
    assert movable == {loose.json()["id"], single.json()["id"]}
    assert {group.status_code, alone.status_code} == {201}
    works_as_one = {row.pk for row in Reservation.objects.select_related("profile") if is_group(row)}
    assert works_as_one == {group.json()["id"]}


def test_a_pin_is_kept_or_refused_by_the_nodes_name(pool, ask):
    node = Node.objects.order_by("pk")[3]
    first = ask(pool, 2, node=node.pk)
    assert nodes_of(first) == {node.pk} and first.json()["node"] == node.pk
    second = ask(pool, 1, node=node.pk)
    assert (second.status_code, second.json()["code"]) == (409, "no_capacity")
    assert node.name in second.json()["message"]
    other = Node.objects.create(name="elsewhere")
    assert ask(pool, 1, node=other.pk).json()["code"] == "node_refused"
    assert ask(pool, 1, node=10**12).json()["code"] == "node_refused"
    assert Reservation.objects.count() == 1


def test_slices_are_no_group_and_the_refusal_names_whole_gpus(team, pool, ask):
    mig = make_pool_with_gpus("H100", gpus=1)
    make_quota(team.parent, mig, limit=1000)
    refused = ask(mig, 2, "1g.10gb", together=True)
    assert (refused.status_code, refused.json()["code"]) == (422, "group_refused")
    assert f"Whole GPUs of {pool.name} can." in refused.json()["message"]
    evidence = refused.json()["evidence"]
    assert (evidence["pool_instead"], evidence["profile_instead"]) == (pool.pk, "full")
    assert ask(mig, 2, "1g.10gb").status_code == 201
    assert ask(pool, 2, together=True).json()["together"] is True


def test_the_page_says_how_near_the_ranks_are(client, pool, ask):
    near, far, one = ask(pool, 4), ask(pool, 4), ask(pool, 2)
    assert {answer.status_code for answer in (near, far, one)} == {201}
    client.force_login(Reservation.objects.first().owner)
    pages = [client.get(f"/reservations/{answer.json()['number']}/").content.decode() for answer in (near, far, one)]
    assert "2 nodes of one rack, r1." in pages[0] and pages[0].count("· r1") == 4
    assert "2 nodes that are not known to share a rack." in pages[1]
    assert "All ranks are on one node, " in pages[2]


@pytest.mark.parametrize("wrong", [{"node": 1, "waitlist": True}, {"together": True, "waitlist": True}])
def test_what_is_waited_for_takes_no_pin(pool, ask, wrong):
    assert ask(pool, 1, **wrong).status_code == 422


def test_the_same_key_with_another_pin_is_another_request(pool, team):
    program = Program(make_user("ken", team, Role.MEMBER))
    during = window(timezone.now() + 40 * HOUR)
    body = {"tenant": team.pk, "pool": pool.pk, "profile": "full", "ranks": 1, "workload": RUNS,
            "start": during.lower.isoformat(), "end": during.upper.isoformat()}  # fmt: skip
    assert program.post("reservations/", body, Idempotency_Key="k").status_code == 201
    pinned = body | {"node": Node.objects.order_by("pk")[1].pk}
    assert program.post("reservations/", pinned, Idempotency_Key="k").json()["code"] == "idempotency_conflict"
