"""The timeline: who has what when, names only for those who may see them, and the same work for 1 and 200 leases."""

import datetime as dt
import gzip
import re

import pytest
from django.utils import timezone

from portal.inventory.models import Gpu, NodeState
from portal.reservations.models import Lease, LeaseState, State
from portal.tenants.models import Role
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_reservation, make_tenant, make_user, window

pytestmark = pytest.mark.django_db


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def noon():
    return timezone.now().replace(hour=12, minute=0, second=0, microsecond=0)


def _page(client, user, **query):
    client.force_login(user)
    answer = client.get("/timeline/", query)
    assert answer.status_code == 200
    return answer


def _labels(answer) -> list[str]:
    return re.findall(r'class="lease ([^"]+)"', answer.content.decode())


def test_yours_your_tenants_and_others_look_different_and_names_need_sight(client, org, noon):
    pool = make_pool_with_gpus("H100", gpus=1)
    gpu = pool.gpus.get()
    me = make_user("me", org[1])
    robotics = make_tenant("robotics", org[0])
    mine = make_reservation(org[1], pool, "1g.10gb", window(noon), places=((gpu, 0),), owner=me)
    ours = make_reservation(org[1], pool, "1g.10gb", window(noon), places=((gpu, 1),))
    below = make_reservation(org[2], pool, "1g.10gb", window(noon), places=((gpu, 3),))
    theirs = make_reservation(robotics, pool, "1g.10gb", window(noon), places=((gpu, 2),))
    theirs.workload.name = "secret-name"
    theirs.workload.save()
    answer = _page(client, me, date=noon.date())
    hue = f"t{org[2].hue} planned"
    assert sorted(_labels(answer)) == ["dim planned", "mine planned", "ours planned", hue]
    body = answer.content.decode()
    assert f'href="/reservations/{mine.number}/"' in body
    assert f'href="/reservations/{ours.number}/"' in body
    assert f'href="/reservations/{below.number}/"' in body
    assert theirs.number not in body
    assert "secret-name" not in body
    assert "robotics" not in body
    table = _page(client, me, date=noon.date(), view="table", sort="lease").content.decode()
    assert "secret-name" not in table
    assert theirs.number not in table
    assert table.count("<tr id=") == 4


def test_who_sees_all_tenants_reads_their_names_in_the_legend(client, org, noon):
    pool = make_pool_with_gpus("H100", gpus=1)
    make_reservation(make_tenant("robotics", org[0]), pool, "1g.10gb", window(noon), places=((pool.gpus.get(), 2),))
    auditor = make_user(tenant=org[0], role=Role.VIEWER)
    client.force_login(auditor)
    client.post("/tenant/", {"tenant": org[1].pk})
    answer = _page(client, auditor, date=noon.date())
    assert _labels(answer) == ["t1 planned"]
    assert [tenant.name for tenant in answer.context["tenants"]] == ["robotics"]


def test_an_ended_lease_is_drawn_until_it_ended_and_one_that_never_began_not_at_all(client, org, noon):
    pool = make_pool_with_gpus("H100", gpus=1)
    gpu = pool.gpus.get()
    made = {"state": State.ENDED, "lease_state": LeaseState.ENDED}
    released = make_reservation(org[1], pool, "1g.10gb", window(noon, 6), places=((gpu, 0),), **made)
    never = make_reservation(org[1], pool, "1g.10gb", window(noon, 6), places=((gpu, 1),), **made)
    Lease.objects.filter(reservation=released).update(ended_at=noon + HOUR)
    Lease.objects.filter(reservation=never).update(ended_at=noon - HOUR)
    answer = _page(client, make_user(tenant=org[1]), date=noon.date())
    (rect,) = [rect for line in answer.context["picture"].lines for rect in line.rects]
    assert rect.lease_id == released.leases.get().pk
    assert float(rect.width.rstrip("%")) == pytest.approx(100 / 24, rel=0.01)


def test_the_day_is_the_readers_own_and_may_have_25_hours(client, org):
    reader = make_user(tenant=org[1])
    reader.time_zone = "Europe/Berlin"
    reader.save()
    make_pool_with_gpus("H100", gpus=1)
    frame = _page(client, reader, date="2026-10-25").context["asked"].frame
    assert frame.until - frame.since == 25 * HOUR
    assert frame.since == dt.datetime(2026, 10, 24, 22, tzinfo=dt.UTC)


def test_filters_narrow_to_a_pool_a_node_and_what_is_mine(client, org, noon):
    first, second = make_pool_with_gpus("H100", gpus=2, nodes=2), make_pool_with_gpus("L40S", gpus=1)
    me = make_user(tenant=org[1])
    gpu = first.gpus.order_by("index")[0]
    make_reservation(org[1], first, "1g.10gb", window(noon), places=((gpu, 0),), owner=me)
    make_reservation(org[1], first, "1g.10gb", window(noon), places=((gpu, 1),))
    make_reservation(org[1], second, "full", window(noon), places=((second.gpus.get(), 0),))
    assert len(_labels(_page(client, me, date=noon.date()))) == 3
    assert len(_labels(_page(client, me, date=noon.date(), mine=1))) == 1
    assert len(_labels(_page(client, me, date=noon.date(), pool=second.pk))) == 1
    shown = _page(client, me, date=noon.date(), node=gpu.node_id)
    assert [line.gpu for line in shown.context["picture"].lines] == [gpu]


def test_a_node_in_maintenance_is_hatched_from_now_on(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    gpu = pool.gpus.get()
    gpu.node.state = NodeState.MAINTENANCE
    gpu.node.save()
    reader = make_user(tenant=org[1])
    closed = _page(client, reader).context["picture"].lines[0].closed[0]
    assert closed.word == "Maintenance"
    yesterday = timezone.localdate() - dt.timedelta(days=1)
    assert _page(client, reader, date=yesterday).context["picture"].lines[0].closed == ()


def test_a_month_shows_the_share_of_slice_time_held_a_day(client, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    start = dt.datetime(2026, 3, 9, tzinfo=dt.UTC)
    held = make_reservation(org[1], pool, "3g.40gb", window(start, 24), places=((pool.gpus.get(), 4),),
                            state=State.ENDED, lease_state=LeaseState.ENDED)  # fmt: skip
    Lease.objects.filter(reservation=held).update(ended_at=start + 24 * HOUR)
    (line,) = _page(client, make_user(tenant=org[1]), zoom="month", date="2026-03-20").context["month"]
    assert line.path == "M80 36v-17h9v17z"
    assert line.ahead == ""


def test_more_than_64_gpus_come_in_pages_of_whole_nodes(client, org):
    make_pool_with_gpus("H100", gpus=80, nodes=10)
    reader = make_user(tenant=org[1])
    sizes = [len(_page(client, reader, page=number).context["picture"].lines) for number in (1, 2, 99)]
    assert sizes == [64, 16, 16]


@pytest.mark.parametrize("query", [
    {"zoom": "year", "date": "0000-13-99", "pool": "x", "node": "-1", "page": "²", "sort": "weight"},
    {"date": "9999-12-31"}, {"date": "2999-12-01", "zoom": "week"}, {"node": "9" * 30}, {"pool": "1", "page": "0"},
])  # fmt: skip
def test_an_address_that_makes_no_sense_shows_what_there_is(client, org, query):
    _page(client, make_user(tenant=org[1]), **query)


@pytest.mark.parametrize("rows", [1, 25, 200])
@pytest.mark.parametrize("view", [{"zoom": "day"}, {"zoom": "month"}, {"view": "table", "sort": "-tenant"}], ids=str)
def test_queries_do_not_grow_with_leases(client, org, noon, rows, view, django_assert_max_num_queries):
    pool = make_pool_with_gpus("H100", gpus=29, nodes=4)
    places = [(gpu, start) for gpu in Gpu.objects.filter(pool=pool) for start in range(7)]
    for place in places[:rows]:
        make_reservation(org[2], pool, "1g.10gb", window(noon, 2), places=(place,))
    client.force_login(make_user(tenant=org[0], role=Role.ADMIN))
    with django_assert_max_num_queries(12):
        answer = client.get("/timeline/", {"date": noon.date(), **view})
    assert answer.status_code == 200
    if view.get("zoom") != "month":
        assert len(answer.context["picture"].leases) == rows


def test_the_fullest_page_is_small_enough_to_send(client, org, noon):
    pool = make_pool_with_gpus("H100", gpus=64, nodes=8)
    places = [(gpu, start) for gpu in Gpu.objects.filter(pool=pool) for start in range(7)]
    for place in places:
        make_reservation(org[2], pool, "1g.10gb", window(noon, 2), places=(place,))
    answer = _page(client, make_user(tenant=org[0], role=Role.ADMIN), date=noon.date())
    assert len(_labels(answer)) == len(places)
    assert len(gzip.compress(answer.content)) < 80_000
