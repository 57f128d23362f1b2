"""The web as it is run: one uvicorn process, and how much CPU time it has used."""

import http.client
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from portal.demo.parts import web
from portal.demo.ports import is_free
from portal.demo.processes import Part

PORTS = range(8400, 8500)
SCHEDULED = 2  # of a clock id: the scheduler's own count, in nanoseconds


class Server:
    """A process that answers on ``port``."""

    def __init__(self, part: Part, port: int) -> None:
        self.port = port
        assert part.process is not None
        self._clock = (~part.process.pid << 3) | SCHEDULED

    def cpu_seconds(self) -> float:
        """Of the whole process with all its threads, since it began."""
        return time.clock_gettime(self._clock)


@contextmanager
def running_server() -> Iterator[Server]:
    port = next(port for port in PORTS if is_free(port))
    environment = dict(os.environ) | {"PYTHONUNBUFFERED": "1", "PORTAL_URL": f"http://127.0.0.1:{port}"}
    part = web(settings.PLACES, environment, port, lambda _: _answers(port))
    part.spawn()
    try:
        deadline = time.monotonic() + part.ready_seconds
        while not _answers(port):
            assert part.alive and time.monotonic() < deadline, f"the web did not come up. {part.tail()}"
            time.sleep(0.1)
        yield Server(part, port)
    finally:
        part.stop()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
