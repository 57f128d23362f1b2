"""A node is taken out for good while somebody books a slice of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction
from django.utils import timezone

from portal.inventory.enrolment import retire_node
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Node, NodeState
from portal.reservations.booking import lock_pool
from tests.factories import make_org, make_pool_with_gpus, make_reservation, make_user, window
from tests.race.meeting import until_done_or_waiting

pytestmark = pytest.mark.django_db(transaction=True)


def retire(node: Node) -> None:
    try:
        retire_node(actor=make_user(), node=node)
    finally:
        connections.close_all()


def test_a_node_is_not_retired_beneath_a_booking():
    _, team, _ = make_org()
    pool = make_pool_with_gpus(gpus=1)
    node = pool.nodes.get()
    with ThreadPoolExecutor(1) as admin:
        with transaction.atomic():
            lock_pool(pool.pk)
            retired = admin.submit(retire, node)
            until_done_or_waiting(retired)
            make_reservation(team, pool, "7g.80gb", window(timezone.now()), places=((node.gpus.get(), 0),))
        with pytest.raises(InventoryRefused):
            retired.result(30)
    node.refresh_from_db()
    assert node.state == NodeState.READY
