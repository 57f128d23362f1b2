"""A machine that is gone is written off: leases end at its last sign of life, its slices are never reused."""

import datetime as dt

import pytest
from django.utils import timezone

from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Gpu, Node, NodeState
from portal.ledger.models import LedgerEntry
from portal.reservations.models import LeaseState, State
from portal.reservations.selectors import bookable_gpus
from portal.reservations.writing_off import write_off_node
from portal.tenants.models import Role
from tests.factories import make_org, make_pool_with_gpus, make_reservation, make_user, record, window

pytestmark = pytest.mark.django_db
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def running():
    root, team, _ = make_org()
    pool = make_pool_with_gpus("H100", 2, nodes=2)
    gpu = Gpu.objects.earliest("pk")
    since = timezone.now() - 2 * HOUR
    reservation = make_reservation(
        team, pool, "3g.40gb", window(since, 4), places=((gpu, 0),), state=State.RUNNING,
        lease_state=LeaseState.ACTIVE, frozen_at=since)  # fmt: skip
    lease = reservation.leases.get()
    lease.active_at = since
    lease.save(update_fields=["active_at"])
    record(lease, "opened", since)
    return reservation, make_user("ada", root, Role.ADMIN)


def _silence(node: Node, ago: dt.timedelta) -> Node:
    node.last_seen_at = timezone.now() - ago
    node.silent_since = node.last_seen_at + dt.timedelta(seconds=60)
    node.save()
    return node


def test_its_leases_end_at_the_last_sign_of_life_and_it_is_retired(running):
    reservation, admin = running
    node = _silence(reservation.leases.get().gpu.node, HOUR)
    assert write_off_node(actor=admin, node=node).state == NodeState.RETIRED
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason) == ("ended", "node_lost")
    assert LedgerEntry.objects.get(kind="closed").at == node.last_seen_at
    assert [gpu.node_id for gpu in bookable_gpus(reservation.pool)] != [node.pk]


def test_a_node_that_answers_is_not_written_off(running, client):
    reservation, admin = running
    node = reservation.leases.get().gpu.node
    with pytest.raises(InventoryRefused):
        write_off_node(actor=admin, node=node)
    reservation.refresh_from_db()
    assert reservation.state == State.RUNNING
    client.force_login(admin)
    assert b"write-off" not in client.get(f"/nodes/{node.pk}/").content


def test_an_admin_writes_a_silent_node_off_on_its_page(running, client):
    reservation, admin = running
    node = _silence(reservation.leases.get().gpu.node, HOUR)
    client.force_login(admin)
    assert f"/nodes/{node.pk}/write-off/" in client.get(f"/nodes/{node.pk}/").content.decode()
    assert client.post(f"/nodes/{node.pk}/write-off/").status_code == 302
    node.refresh_from_db()
    assert node.state == NodeState.RETIRED
