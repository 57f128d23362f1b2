"""Ranks of one gang come to rest on several nodes at the same instant, as they all do at the end of their window."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction
from django.utils import timezone

from agents.protocol import LeaseEvent, Report, event_id
from portal.reservations.agent_reports import apply_report
from portal.reservations.models import Lease, LeaseState, State
from tests.factories import make_org, make_pool_with_gpus, make_reservation, window
from tests.race.meeting import until_done_or_waiting

pytestmark = pytest.mark.django_db(transaction=True)


def tell_freed(lease: Lease) -> None:
    now = timezone.now()
    event = LeaseEvent(event_id(lease.pk, "freed"), lease.pk, "freed", now.timestamp(), reason="window_over")
    apply_report(lease.gpu.node_id, Report(0, (), (event,), ()), now)


def tell_freed_in_a_thread(lease: Lease) -> None:
    try:
        tell_freed(lease)
    finally:
        connections.close_all()


def test_two_ranks_that_come_to_rest_at_once_end_their_reservation():
    _, team, _ = make_org()
    pool = make_pool_with_gpus(gpus=2, nodes=2)
    places = tuple((gpu, 0) for gpu in pool.gpus.order_by("pk"))
    now = timezone.now()
    booked = make_reservation(
        team, pool, "7g.80gb", window(now), places=places, state=State.RUNNING, lease_state=LeaseState.ACTIVE,
        frozen_at=now)  # fmt: skip
    first, second = booked.leases.select_related("gpu").order_by("rank")
    with ThreadPoolExecutor(1) as other_node:
        with transaction.atomic():
            tell_freed(first)
            told = other_node.submit(tell_freed_in_a_thread, second)
            until_done_or_waiting(told)
        told.result(30)
    booked.refresh_from_db()
    assert booked.state == State.ENDED
