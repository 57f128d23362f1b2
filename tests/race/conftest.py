"""A pool with one GPU of one shape, and many people who want it."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections


@pytest.fixture
def race() -> Iterator[Callable]:
    """Run ``act(0)`` to ``act(n-1)`` in threads that start together; returns the outcomes.

    The threads and their connections last for the whole test: what is raced is the booking, not the connecting.
    """
    with contextlib.ExitStack() as stack:
        pools: dict[int, ThreadPoolExecutor] = {}

        def run(act: Callable[[int], str], clients: int) -> list[str]:
            if clients not in pools:
                pools[clients] = stack.enter_context(ThreadPoolExecutor(clients))
                stack.callback(_close_connections, pools[clients], clients)
            start = threading.Barrier(clients)

            def client(number: int) -> str:
                start.wait(30)
                try:
                    return act(number)
                except Exception as error:
                    return f"{type(error).__name__}: {error}"

            return list(pools[clients].map(client, range(clients), timeout=60))

        yield run


def _close_connections(pool: ThreadPoolExecutor, clients: int) -> None:
    everybody = threading.Barrier(clients)

    def close() -> None:
        everybody.wait(30)
        connections.close_all()

    for closed in [pool.submit(close) for _ in range(clients)]:
        closed.result(60)


@pytest.fixture
def without_exclusion(transactional_db):
    """The database without its last guard, for the control; put back afterwards, over an emptied table."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE reservations_lease DROP CONSTRAINT lease_slices_never_shared")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM reservations_lease")
        cursor.execute(
            "ALTER TABLE reservations_lease ADD CONSTRAINT lease_slices_never_shared "
            "EXCLUDE USING gist (gpu_id WITH =, span WITH &&, during WITH &&) "
            "WHERE (state IN ('planned', 'starting', 'active', 'stopping')) DEFERRABLE INITIALLY IMMEDIATE"
        )
