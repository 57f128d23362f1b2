"""Sockets run through the portal's own ASGI application, over real PostgreSQL and Valkey."""

import asyncio
import contextlib
import time

import pytest
from channels.layers import channel_layers
from django.conf import settings
from django.core.cache import cache
from django.db import connections
from django.test import Client
from redis import Redis

from portal.asgi import application
from portal.inventory.enrolment import enrol, new_enrolment_token
from portal.live.database import in_database
from tests.live.parts import AGENT_PATH, LIVE_PATH, ORIGIN
from tests.live.wire import Wire


@pytest.fixture(autouse=True)
def clean_redis_and_short_connections(monkeypatch):
    """Each test begins with an empty Redis; connections of the sockets' threads end with each call."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    channel_layers.backends.clear()  # its locks belong to the event loop of one test
    with Redis.from_url(settings.REDIS_STORE_URL) as redis:
        redis.flushall()
    cache.clear()
    yield


@pytest.fixture
async def opened():
    """Opens sockets and closes what a test leaves open, so that the process's rounds end with it."""
    wires: list[Wire] = []

    def build(path: str, headers: list[tuple[bytes, bytes]]) -> Wire:
        wires.append(Wire(application, path, headers))
        return wires[-1]

    yield build
    for wire in wires:
        with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError, AssertionError):
            await wire.leave()


@pytest.fixture
def credential_of():
    def join(node) -> str:
        return enrol(token=new_enrolment_token(node=node, actor=None), hostname="machine")[1]

    return join


@pytest.fixture
def as_agent(opened):
    def connect(credential: str) -> Wire:
        return opened(AGENT_PATH, [(b"authorization", f"Bearer {credential}".encode())])

    return connect


@pytest.fixture
def as_browser(opened):
    """A socket with the session of a signed-in person; ``client`` is the browser that holds the session."""

    def connect(client: Client | None, origin: str | None = ORIGIN) -> Wire:
        headers = [(b"host", b"testserver")]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        if client is not None:
            cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
            headers.append((b"cookie", cookie.encode()))
        return opened(LIVE_PATH, headers)

    return connect


@pytest.fixture
def signed_in():
    async def sign_in(user) -> Client:
        client = Client()
        await in_database(client.force_login)(user)
        return client

    return sign_in


@pytest.fixture
def ask_until():
    """Wait until a condition in the database holds."""

    async def wait(question, within_seconds: float = 10) -> None:
        deadline = time.monotonic() + within_seconds
        while not await in_database(question)():
            assert time.monotonic() < deadline, f"{question} did not become true"
            await asyncio.sleep(0.05)

    return wait
