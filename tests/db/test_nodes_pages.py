"""Pools and nodes: only for platform admins, every refusal a sentence, a token shown once."""

import re

import pytest
from django.utils import timezone

from portal.inventory.enrolment import enrol
from portal.inventory.errors import EnrolmentRefused
from portal.inventory.models import Gpu, Node, NodeState, Pool
from portal.tenants.models import Role
from tests.factories import make_org, make_pool_with_gpus, make_reservation, make_user, window

pytestmark = pytest.mark.django_db
LIMITS = {"shortest": "60", "longest": "168", "ahead": "60"}


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def admin(client, org):
    admin = make_user("ada", org[0], Role.ADMIN)
    client.force_login(admin)
    return admin


def _token(answer) -> str:
    (token,) = re.findall(r"--token (\S+)", answer.content.decode())
    return token


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.LEAD])
def test_who_is_no_platform_admin_finds_no_such_page(client, org, role):
    make_pool_with_gpus("H100")
    node = Node.objects.get()
    client.force_login(make_user(tenant=org[0], role=role))
    for path in ("/nodes/", "/nodes/add/", "/nodes/pools/add/", f"/nodes/{node.pk}/"):
        assert client.get(path).status_code == 404
    for path in ("token", "state", "retire"):
        assert client.post(f"/nodes/{node.pk}/{path}/", {"state": "cordoned"}).status_code == 404
    assert client.get("/nodes/", follow=False).status_code == 404
    node.refresh_from_db()
    assert node.state == NodeState.READY


def test_an_admin_of_a_team_is_no_platform_admin(client, org):
    client.force_login(make_user(tenant=org[1], role=Role.ADMIN))
    assert client.get("/nodes/").status_code == 404


def test_a_pool_is_made_and_its_limits_changed(client, admin):
    assert client.post("/nodes/pools/add/", {"name": "H100 MIG", **LIMITS}).status_code == 302
    pool = Pool.objects.get(name="H100 MIG")
    assert (pool.longest_window_seconds, pool.book_ahead_seconds) == (7 * 86400, 60 * 86400)
    client.post(f"/nodes/pools/{pool.pk}/", {**LIMITS, "longest": "1.5"})
    pool.refresh_from_db()
    assert pool.longest_window_seconds == 5400
    assert client.get("/nodes/").content.decode().count("H100 MIG") == 1


@pytest.mark.parametrize("wrong, status", [
    ({"name": ""}, 422), ({"shortest": "0"}, 422), ({"longest": "-1"}, 422), ({"ahead": "1e99"}, 422),
    ({"shortest": "7200", "longest": "1"}, 409), ({"name": "taken"}, 409), ({"longest": "99999"}, 409),
])  # fmt: skip
def test_a_pool_that_makes_no_sense_is_refused_and_keeps_what_was_typed(client, admin, wrong, status):
    Pool.objects.create(name="taken")
    answer = client.post("/nodes/pools/add/", {"name": "new", **LIMITS, **wrong})
    assert answer.status_code == status
    assert Pool.objects.count() == 1
    assert 'aria-invalid="true"' in answer.content.decode() or 'role="alert"' in answer.content.decode()
    assert 'value="60"' in answer.content.decode()


def test_a_new_node_shows_its_command_once_and_the_token_lets_it_join(client, admin, settings):
    pool = Pool.objects.create(name="H100 MIG")
    answer = client.post("/nodes/add/", {"name": "quay-01", "pool": pool.pk})
    assert answer.status_code == 200
    assert f"curl -fsSL {settings.PORTAL_URL}/agent/v1/install.sh | sudo sh" in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    token = _token(answer)
    node = Node.objects.get(name="quay-01")
    assert token not in client.get(f"/nodes/{node.pk}/").content.decode()
    assert enrol(token=token, hostname="quay-01")[0] == node
    with pytest.raises(EnrolmentRefused):
        enrol(token=token, hostname="quay-01")


def test_a_newer_token_ends_the_older_one(client, admin):
    first = _token(client.post("/nodes/add/", {"name": "quay-01"}))
    node = Node.objects.get()
    second = _token(client.post(f"/nodes/{node.pk}/token/"))
    with pytest.raises(EnrolmentRefused):
        enrol(token=first, hostname="x")
    assert enrol(token=second, hostname="x")[0] == node


@pytest.mark.parametrize("name, status", [("quay-01", 409), ("", 422), ("Quay 1", 422), ("-x", 422), ("x" * 64, 422)])
def test_a_node_of_a_wrong_or_taken_name_is_refused(client, admin, name, status):
    Node.objects.create(name="quay-01")
    assert client.post("/nodes/add/", {"name": name}).status_code == status
    assert Node.objects.count() == 1


def test_a_node_is_cordoned_put_back_and_retired(client, admin):
    make_pool_with_gpus("H100")
    node = Node.objects.get()
    for state in ("cordoned", "draining", "maintenance", "ready"):
        assert client.post(f"/nodes/{node.pk}/state/", {"state": state}).status_code == 302
        node.refresh_from_db()
        assert node.state == state
    assert client.post(f"/nodes/{node.pk}/state/", {"state": "retired"}).status_code == 422
    assert client.post(f"/nodes/{node.pk}/retire/").status_code == 302
    assert client.post(f"/nodes/{node.pk}/state/", {"state": "ready"}).status_code == 409
    assert node.name not in client.get("/nodes/").content.decode().split('<h2 id="h-nodes"')[1].split("</section>")[0]
    assert node.name in client.get("/nodes/", {"retired": 1}).content.decode()


def test_a_node_that_holds_leases_is_not_retired(client, admin, org):
    pool = make_pool_with_gpus("H100", gpus=1)
    make_reservation(org[1], pool, "1g.10gb", window(timezone.now()), places=((pool.gpus.get(), 0),))
    node = Node.objects.get()
    answer = client.post(f"/nodes/{node.pk}/retire/")
    assert answer.status_code == 409
    assert "hold leases" in answer.content.decode()
    node.refresh_from_db()
    assert node.state == NodeState.READY


def test_a_gpu_without_a_pool_says_why(client, admin):
    pool = make_pool_with_gpus("H100", gpus=1)
    node = Node.objects.get()
    Gpu.objects.create(node=node, uuid="GPU-x", index=9, model="NVIDIA L40S", memory_mib=46068, memory_slices=8,
                       compute_slices=7, mig_capable=False, mig_enabled=False)  # fmt: skip
    body = client.get(f"/nodes/{node.pk}/").content.decode()
    assert f"{pool.name} takes {pool.gpu_model} with MIG on; no pool takes NVIDIA L40S with MIG off." in body
    assert "1 without pool" in client.get("/nodes/").content.decode()


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_queries_do_not_grow_with_nodes(client, admin, rows, django_assert_max_num_queries):
    make_pool_with_gpus("H100", gpus=rows, nodes=rows)
    with django_assert_max_num_queries(12):
        assert client.get("/nodes/").status_code == 200
    with django_assert_max_num_queries(12):
        assert client.get(f"/nodes/{Node.objects.first().pk}/").status_code == 200
