"""Where a node stands is said by platform admins; how its GPUs reach each other is said by its agent."""

import msgspec
import pytest

from portal.audit.models import AuditEntry
from portal.inventory.models import Gpu, Node
from portal.inventory.reported import record_gpus
from portal.tenants.models import Role
from tests.db.test_reported import facts_of
from tests.factories import make_org, make_pool_with_gpus, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client):
    admin = make_user("ada", make_org()[0], Role.ADMIN)
    client.force_login(admin)
    return admin


def test_an_admin_says_where_a_node_stands_and_it_is_on_record(client, admin):
    make_pool_with_gpus("L40S", gpus=1)
    node = Node.objects.get()
    for _twice in range(2):
        assert client.post(f"/nodes/{node.pk}/rack/", {"rack": "  row 3,  rack 7 "}).status_code == 302
    node.refresh_from_db()
    assert node.rack == "row 3, rack 7"
    assert "row 3, rack 7" in client.get(f"/nodes/{node.pk}/").content.decode()
    told = AuditEntry.objects.filter(action="node.rack").values_list("actor", "subject", "before", "after")
    assert list(told) == [(admin.pk, node.name, {"rack": ""}, {"rack": "row 3, rack 7"})]
    (shown,) = client.get("/api/v1/fleet/").json()["results"]
    assert shown["rack"] == "row 3, rack 7"


def test_a_rack_of_a_name_too_long_and_one_of_a_retired_node_are_refused(client, admin):
    make_pool_with_gpus("L40S", gpus=1)
    node = Node.objects.get()
    assert client.post(f"/nodes/{node.pk}/rack/", {"rack": "x" * 65}).status_code == 422
    Node.objects.update(state="retired")
    assert client.post(f"/nodes/{node.pk}/rack/", {"rack": "r1"}).status_code == 409
    node.refresh_from_db()
    assert node.rack == ""


def test_what_an_agent_says_of_the_ways_is_kept_and_what_it_does_not_is_unknown(client, admin):
    make_pool_with_gpus("L40S", gpus=3)
    node = Node.objects.get()
    first, second, third = facts_of(node)
    assert "reach each other" not in client.get(f"/nodes/{node.pk}/").content.decode()
    first = msgspec.structs.replace(first, links={second.uuid: "NV4"})
    second = msgspec.structs.replace(second, links={first.uuid: "NV4"})
    record_gpus(node, (first, second, third))
    assert Gpu.objects.get(uuid=first.uuid).links == {second.uuid: "NV4"}
    assert Gpu.objects.get(uuid=third.uuid).links is None
    body = client.get(f"/nodes/{node.pk}/").content.decode()
    assert body.split('id="h-ways"')[1].count(">NV4<") == 2
