"""Two transactions meet: the second is through, or it waits for a lock of the first."""

import time
from concurrent.futures import Future, wait

from django.db import connection


def until_done_or_waiting(other: Future, within_seconds: float = 20) -> None:
    """Returns once ``other`` is done or some transaction waits for a lock; looks every 20 ms."""
    deadline = time.monotonic() + within_seconds
    while not wait([other], timeout=0.02).done:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
        assert time.monotonic() < deadline, "neither done nor waiting"
