"""Ranks of one gang come to rest on several nodes at the same instant, as they all do at the end of their window."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction
from django.utils import timezone

from agents.protocol import LeaseEvent, Report, event_id
from portal.reservations.agent_reports import apply_report
from portal.reservations.models import BOUND, Lease, LeaseState, State
from portal.workloads.models import RankLoss
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


def test_a_group_whose_ranks_all_fail_at_once_begins_again_once_in_all_its_places(race):
    _, team, _ = make_org()
    pool = make_pool_with_gpus("L40S", gpus=4, nodes=4)
    places = tuple((gpu, 0) for gpu in pool.gpus.order_by("pk"))
    now = timezone.now()
    booked = make_reservation(
        team, pool, "full", window(now), places=places, state=State.RUNNING, lease_state=LeaseState.ACTIVE,
        frozen_at=now)  # fmt: skip
    type(booked.workload).objects.update(rank_loss=RankLoss.RESTART, restarts_most=5)
    leases = list(booked.leases.select_related("gpu").order_by("rank"))

    def fail(number: int) -> str:
        for kind in ("stopping", "freed"):
            at = timezone.now()
            event = LeaseEvent(event_id(leases[number].pk, kind), leases[number].pk, kind, at.timestamp(),
                               reason="exited", exit_code=1 if kind == "freed" else None)  # fmt: skip
            apply_report(leases[number].gpu.node_id, Report(0, (), (event,), ()), at)
        return "told"

    assert race(fail, len(leases)) == ["told"] * len(leases)
    booked.workload.refresh_from_db()
    again = booked.leases.filter(state__in=BOUND)
    assert booked.workload.restarts == 1
    assert sorted(again.values_list("gpu_id", flat=True)) == sorted(gpu.pk for gpu, _ in places)
    assert again.filter(frozen_at__isnull=False).count() == len(leases)
