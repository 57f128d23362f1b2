"""Database work of sockets, off the event loop."""

from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from channels.db import database_sync_to_async

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
# Threads of its own: one statement that waits for a lock must hold up neither the other sockets nor the pages.
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="live-database")


def in_database(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """``function`` as a coroutine function; connections are checked before and given back after each call."""
    return database_sync_to_async(function, thread_sensitive=False, executor=_pool)
