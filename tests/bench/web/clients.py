"""Signed-in clients that ask over HTTP, several at once, with their connections kept."""

import http.client
import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import urlencode

from django.conf import settings
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client

from portal.accounts.models import User
from tests.bench.web.server import Server

ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """``sent_bytes`` is the body as it came, compressed."""

    status: int
    seconds: float
    sent_bytes: int
    body: bytes = b""


@dataclass
class Measured:
    """Some answers to one kind of request, and the server's CPU time for all of them."""

    answers: list[Answer] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """A request."""
        return 1000 * self.cpu_seconds / len(self.answers)

    @property
    def p95_ms(self) -> float:
        seconds = sorted(answer.seconds for answer in self.answers)
        return 1000 * seconds[math.ceil(0.95 * len(seconds)) - 1]

    @property
    def kilobytes(self) -> float:
        return max(answer.sent_bytes for answer in self.answers) / 1000

    def statuses(self) -> set[int]:
        return {answer.status for answer in self.answers}


Ask = tuple[str, str, dict[str, str] | None]  # verb, address, form or JSON


class Visitor:
    """A session of one person; ``None`` is nobody signed in."""

    def __init__(self, server: Server, person: User | None) -> None:
        self._server = server
        self._csrf = _get_new_csrf_string()
        self._cookies = f"{settings.CSRF_COOKIE_NAME}={self._csrf}"
        if person is not None:
            client = Client()
            client.force_login(person)
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            self._cookies += f"; {settings.SESSION_COOKIE_NAME}={session}"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=ANSWER_SECONDS)

    def ask(self, connection: http.client.HTTPConnection, ask: Ask) -> Answer:
        verb, url, data = ask
        headers = {"Cookie": self._cookies, "Accept-Encoding": "gzip", "X-CSRFToken": self._csrf}
        body = None
        if data is not None and url.startswith("/api/"):
            body, headers["Content-Type"] = json.dumps(data), "application/json"
        elif data is not None:
            body, headers["Content-Type"] = urlencode(data), "application/x-www-form-urlencoded"
        began = time.monotonic()
        connection.request(verb, url, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        return Answer(answer.status, time.monotonic() - began, len(content), content)


def measure(server: Server, visitor: Visitor, asks: Sequence[Ask], clients: int) -> Measured:
    """Every one of ``asks`` once, shared out among clients that begin together."""
    found, numbers, start = Measured(), count(), threading.Barrier(clients + 1)

    def client() -> list[Answer]:
        connection = visitor.connect()
        connection.connect()
        start.wait(ANSWER_SECONDS)
        answers = [visitor.ask(connection, asks[number]) for number in _each(numbers, len(asks))]
        connection.close()
        return answers

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(client) for _ in range(clients)]
        start.wait(ANSWER_SECONDS)
        before = server.cpu_seconds()
        for future in running:
            found.answers.extend(future.result())
        found.cpu_seconds = server.cpu_seconds() - before
    return found


def _each(numbers: Iterator[int], end: int) -> Iterator[int]:
    while (number := next(numbers)) < end:
        yield number
