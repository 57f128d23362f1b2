"""Threads that answer requests, kept from one request to the next.

Django's ASGI handler takes a new thread for each request, and with it a new connection to the database, which costs$
more than many a page. A thread that is kept keeps its connection, for CONN_MAX_AGE_SECONDS as everywhere.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

KEPT = 16


class WithKeptThreads:
    """An ASGI application whose synchronous parts run in a thread of its own for each request under way.

    As many threads as there are requests at once; those beyond ``KEPT`` end with their request.
    """

    def __init__(self, application: Asgi) -> None:
        self._application = application
        self._free: deque[ThreadPoolExecutor] = deque()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        thread = self._free.pop() if self._free else ThreadPoolExecutor(1, "request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._application(scope, receive, send)
        finally:
            if len(self._free) < KEPT:
                self._free.append(thread)
            else:
                thread.shutdown(wait=False)
