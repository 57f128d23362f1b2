"""Booking under load: many clients on one pool, each answered, none of them with an error."""

import datetime as dt
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.utils import timezone

from portal.reservations.booking import book_reservation
from portal.reservations.models import Lease
from portal.workloads.drafts import WorkloadDraft
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_user, profile_of, window

CLIENTS = 8
BOOKINGS_EACH = 12
DRAFT = WorkloadDraft("bench", "none", ("true",))


@pytest.mark.django_db(transaction=True)
def test_clients_that_book_side_by_side_are_all_served(record_figure):
    root, _, project = make_org()
    pool = make_pool_with_gpus("H100", gpus=8)
    make_quota(root, pool, 10_000)
    person, profile = make_user("rosa", project), profile_of(pool, "1g.10gb")
    start = timezone.now().replace(microsecond=0) + dt.timedelta(days=1)

    def client(number: int) -> list[float]:
        seconds = []
        for turn in range(BOOKINGS_EACH):
            began = time.monotonic()
            book_reservation(
                created_by=person,
                owner=person,
                tenant=project,
                pool=pool,
                profile=profile,
                ranks=1,
                during=window(start + (number * BOOKINGS_EACH + turn) * HOUR / 4, 2),
                workload=DRAFT,
            )
            seconds.append(time.monotonic() - began)
        connections.close_all()
        return seconds

    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as clients:
        took = [seconds for each in clients.map(client, range(CLIENTS)) for seconds in each]
    total = time.monotonic() - began
    assert Lease.objects.count() == CLIENTS * BOOKINGS_EACH
    record_figure("bookings on one pool", len(took) / total, "a second")
    record_figure("a booking, half of them within", 1000 * statistics.median(took), "ms")
    record_figure("a booking, 95 of 100 within", 1000 * statistics.quantiles(took, n=20)[-1], "ms")
