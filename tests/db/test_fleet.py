"""The fleet page: what is held now, what is out of service, what could be booked."""

import datetime as dt

import pytest
from django.utils import timezone

from portal.inventory.models import Gpu, Node, NodeState
from portal.live.models import UseBucket
from portal.reservations.models import LeaseState, State
from portal.tenants.models import Role
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_reservation, make_tenant, make_user, window

pytestmark = pytest.mark.django_db


@pytest.fixture
def org():
    return make_org()


def _running(tenant, pool, gpu, start, profile="1g.10gb", owner=None):
    return make_reservation(
        tenant, pool, profile, window(timezone.now() - HOUR, 4), places=((gpu, start),), owner=owner,
        state=State.RUNNING, lease_state=LeaseState.ACTIVE)  # fmt: skip


def _page(client, user, **query):
    client.force_login(user)
    answer = client.get("/fleet/", query)
    assert answer.status_code == 200
    return answer


def test_slices_held_now_are_counted_and_what_is_planned_for_later_is_not(client, org):
    pool = make_pool_with_gpus("H100", gpus=2)
    first, second = pool.gpus.order_by("index")
    _running(org[1], pool, first, 4, "3g.40gb")
    _running(org[1], pool, first, 0)
    make_reservation(org[1], pool, "1g.10gb", window(timezone.now() + 3 * HOUR), places=((second, 0),))
    answer = _page(client, make_user(tenant=org[1]))
    standing, (shelf,) = answer.context["standing"], answer.context["shelves"]
    assert (standing.held, standing.in_service, standing.ready) == (5, 16, 1)
    assert (shelf.held, shelf.slices, [card.held for card in shelf.gpus]) == (5, 16, [5, 0])


def test_bookable_now_is_what_placement_finds_for_the_next_hour(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    gpu = pool.gpus.get()
    _running(org[1], pool, gpu, 0, "3g.40gb")
    make_reservation(org[1], pool, "1g.10gb", window(timezone.now() + HOUR / 2), places=((gpu, 4),))
    ((name, sizes),) = _page(client, make_user(tenant=org[1])).context["bookable"]
    counts = {profile: count for count, profile in sizes}
    assert name == pool.name
    assert counts["1g.10gb"] == 2
    assert "2g.20gb" not in counts
    assert "3g.40gb" not in counts
    Node.objects.update(state=NodeState.CORDONED)
    assert _page(client, make_user(tenant=org[1])).context["bookable"] == []


def test_only_leases_that_may_be_seen_carry_a_name_or_a_live_value(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    seen = _running(org[1], pool, pool.gpus.get(), 0)
    hidden = _running(make_tenant("robotics", org[0]), pool, pool.gpus.get(), 1)
    body = _page(client, make_user(tenant=org[1])).content.decode()
    assert f'data-fill="l{seen.leases.get().pk}:util"' in body
    assert f"l{hidden.leases.get().pk}:" not in body
    assert "robotics" not in body


def test_a_silent_node_keeps_its_leases_and_says_that_their_use_is_not_measurable(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    made = _running(org[1], pool, pool.gpus.get(), 0)
    Node.objects.update(silent_since=timezone.now() - dt.timedelta(minutes=4))
    answer = _page(client, make_user(tenant=org[1]))
    (slot,) = answer.context["shelves"][0].gpus[0].slots
    assert (slot.unmeasured, slot.live) == (True, "")
    assert answer.context["standing"].held == 1
    assert answer.context["bookable"] == []
    assert f'data-fill="l{made.leases.get().pk}' not in answer.content.decode()


def test_a_faulty_gpu_is_out_of_service_and_its_fault_is_named(client, org):
    make_pool_with_gpus("H100", gpus=2)
    gpu = Gpu.objects.order_by("index").first()
    Gpu.objects.filter(pk=gpu.pk).update(state="faulty", fault="XID 79")
    Node.objects.update(degraded_reason="GPU 0: XID 79")
    answer = _page(client, make_user(tenant=org[1]), state="attention")
    assert answer.context["shelves"][0].gpus[0].out == "XID 79"
    assert answer.context["standing"].in_service == 8
    assert "XID 79" in answer.content.decode()


def test_use_is_the_share_of_measured_slices_and_unknown_where_nothing_was_measured(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    wide = _running(org[1], pool, pool.gpus.get(), 4, "3g.40gb").leases.get()
    narrow = _running(org[1], pool, pool.gpus.get(), 0).leases.get()
    reader = make_user(tenant=org[1])
    at = timezone.now() - dt.timedelta(seconds=20)
    UseBucket.objects.create(lease=wide, at=at, seconds=10)
    assert _page(client, reader).context["standing"].use_percent is None
    UseBucket.objects.create(lease=narrow, at=at, seconds=10, busy_ms=2500, measured_seconds=10)
    assert _page(client, reader).context["standing"].use_percent == 25
    UseBucket.objects.filter(lease=wide).update(busy_ms=10_000, measured_seconds=10)
    assert _page(client, reader).context["standing"].use_percent == 85


def test_pool_and_attention_narrow_what_is_shown(client, org):
    first, second = make_pool_with_gpus("H100"), make_pool_with_gpus("A100", gpus=3)
    reader = make_user(tenant=org[1])
    assert len(_page(client, reader).context["shelves"]) == 2
    narrowed = _page(client, reader, pool=second.pk).context
    assert len(narrowed["shelves"]) == 1
    assert narrowed["standing"].in_service == sum(second.gpus.values_list("memory_slices", flat=True))
    assert _page(client, reader, state="attention").context["shelves"] == []
    assert _page(client, reader, pool="x").status_code == 200
    assert first.nodes.count() == 1


def test_a_pool_with_many_gpus_on_a_node_has_as_many_slices_in_service_as_they_have(client, org):
    pool = make_pool_with_gpus("H100", gpus=3)
    make_pool_with_gpus("L40S", gpus=1)
    answer = _page(client, make_user(tenant=org[1]), pool=pool.pk)
    assert answer.context["standing"].in_service == 24
    assert len(answer.context["shelves"]) == 1


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_queries_do_not_grow_with_leases_or_nodes(client, org, rows, django_assert_max_num_queries):
    pool = make_pool_with_gpus("H100", gpus=max(1, -(-rows // 7)), nodes=max(1, rows // 25))
    places = [(gpu, start) for gpu in Gpu.objects.filter(pool=pool) for start in range(7)]
    for gpu, start in places[:rows]:
        _running(org[2], pool, gpu, start)
    client.force_login(make_user(tenant=org[0], role=Role.ADMIN))
    with django_assert_max_num_queries(12):
        answer = client.get("/fleet/")
    assert sum(shelf.lease_count for shelf in answer.context["shelves"]) == rows


def test_a_cordoned_node_is_not_empty_while_something_is_booked_there(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    Node.objects.update(state=NodeState.CORDONED)
    member = make_user(tenant=org[1])
    assert "It is empty." in _page(client, member).content.decode()
    later, place = window(timezone.now() + 30 * HOUR), ((pool.gpus.get(), 0),)
    booked = make_reservation(org[1], pool, "1g.10gb", later, places=place)
    answer = _page(client, member)
    assert answer.context["shelves"][0].empty_at == booked.ends_at
    assert "It is empty." not in answer.content.decode()
