"""The service as it is, and in the ways it is measured against. Only how clients meet differs: the lock, and with it
the turns and the look of who would have to wait for it. The picture of the pool, the rules and the rows are the same.
"""

import itertools
from collections.abc import Callable

from django.db import connection

from portal.inventory.models import Pool
from portal.reservations import booking
from portal.reservations.models import LIVE, Lease, Reservation
from portal.reservations.pool_turns import turn_in
from portal.reservations.request import Request
from portal.tenants.models import Tenant
from portal.workloads.models import Workload

OURS, WINDOW_LOCK, CONSTRAINT, INSERT = "ours", "window_lock", "constraint", "insert"

Book = Callable[[dict], Reservation | None]


def way_of(name: str) -> Book:
    """To be called once in a process: it changes which lock the service takes there."""
    if name == INSERT:
        return _insert
    if name in (WINDOW_LOCK, CONSTRAINT):
        alone = itertools.count(1)
        booking.turn_in = lambda _pool_id, patience: turn_in(-next(alone), patience)
        booking.enter_pool = _lock_window if name == WINDOW_LOCK else _look_only
    return _book


def _book(asked: dict) -> Reservation:
    return booking.book_reservation(**asked)


def _lock_window(request: Request) -> Pool:
    """FOR UPDATE over the leases that the window meets: what a service without a lock of the pool would do."""
    during = request.during
    _wait_as_long()
    rows = Lease.objects.filter(gpu__pool_id=request.pool.pk, state__in=LIVE, during__overlap=during)
    list(rows.select_for_update(of=("self",)).order_by("pk").values_list("pk"))
    return Pool.objects.get(pk=request.pool.pk)


def _look_only(request: Request) -> Pool:
    _wait_as_long()
    return Pool.objects.get(pk=request.pool.pk)


def _wait_as_long() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = %s", [f"{booking.LOCK_WAIT_SECONDS}s"])


def _insert(asked: dict) -> None:
    """The limit: one row in, committed."""
    tenant: Tenant = asked["tenant"]
    Workload.objects.create(tenant=tenant, name="limit", command=[])
