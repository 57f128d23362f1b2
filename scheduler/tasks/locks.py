"""One sweep of a kind at a time, in the whole installation."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def only_one(name: str) -> Iterator[bool]:
    """Whether we are the one. The lock belongs to this database session: it ends with it, whatever happens."""
    number = zlib.crc32(f"berth sweep {name}".encode())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number])
        ours = bool(cursor.fetchone()[0])
    try:
        yield ours
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
