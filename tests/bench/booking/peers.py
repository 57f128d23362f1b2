"""The service as it is, and in the ways it is measured against. Only the lock differs; everything else is the same."""

import threading
from collections.abc import Callable

from django.db import connection
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.reservations import booking
from portal.reservations.models import LIVE, Lease, Reservation
from portal.tenants.models import Tenant
from portal.workloads.models import Workload

OURS, WINDOW_LOCK, CONSTRAINT, INSERT = "ours", "window_lock", "constraint", "insert"

Book = Callable[[dict], Reservation | None]

_asked = threading.local()


def way_of(name: str) -> Book:
    """To be called once in a process: it changes which lock the service takes there."""
    if name == INSERT:
        return _insert
    if name == WINDOW_LOCK:
        booking.lock_pool = _lock_window
    if name == CONSTRAINT:
        booking.lock_pool = _look_only
    return _book


def _book(asked: dict) -> Reservation:
    _asked.during = asked["during"]
    return booking.book_reservation(**asked)


def _lock_window(pool_id: int) -> Pool:
    """FOR UPDATE over the leases that the window meets: what a service without a lock of the pool would do."""
    during: DateTimeTZRange = _asked.during
    _wait_as_long()
    rows = Lease.objects.filter(gpu__pool_id=pool_id, state__in=LIVE, during__overlap=during)
    list(rows.select_for_update(of=("self",)).order_by("pk").values_list("pk"))
    return Pool.objects.get(pk=pool_id)


def _look_only(pool_id: int) -> Pool:
    _wait_as_long()
    return Pool.objects.get(pk=pool_id)


def _wait_as_long() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = %s", [f"{booking.LOCK_WAIT_SECONDS}s"])


def _insert(asked: dict) -> None:
    """The limit: one row in, committed."""
    tenant: Tenant = asked["tenant"]
    Workload.objects.create(tenant=tenant, name="limit", command=[])
