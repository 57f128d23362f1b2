"""The same sockets behind the real web server, spoken to by the real agent's link and a WebSocket client."""

import asyncio
import contextlib
import json
import socket as sockets
import time

import pytest
import uvicorn
from django.conf import settings
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agents import protocol
from agents.link import Link
from portal.asgi import application
from portal.events import tell_tenant_on_commit
from portal.live.database import in_database
from portal.tenants.models import Tenant
from tests.factories import make_user
from tests.live.parts import a_lease, hello, some_nodes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def address():
    """host:port of a uvicorn that serves the portal in this event loop."""
    listening = sockets.socket()
    listening.bind(("127.0.0.1", free_port()))
    server = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_level="warning"))
    serving = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    host, port = listening.getsockname()
    yield f"{host}:{port}"
    server.should_exit = True
    await asyncio.wait_for(serving, 20)


def free_port() -> int:
    """Below the range from which outgoing connections take theirs."""
    for port in range(21000, 22000):
        with sockets.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def cookie_of(client) -> str:
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


async def test_a_page_of_another_site_gets_403(address, signed_in):
    await in_database(some_nodes)()
    client = await signed_in(await in_database(make_user)())
    for origin in ("http://evil.example", None):
        with pytest.raises(InvalidStatus) as refusal:
            await connect(f"ws://{address}/live/", origin=origin, additional_headers={"Cookie": cookie_of(client)})
        assert refusal.value.response.status_code == 403


async def test_the_agents_link_and_a_page_meet(address, signed_in, credential_of):
    (node,) = await in_database(some_nodes)()
    lease = await in_database(a_lease)(node)
    credential = await in_database(credential_of)(node)
    greeting = protocol.decode_from_agent(await in_database(hello)(node))
    told: asyncio.Queue = asyncio.Queue()

    async def say_hello() -> protocol.Hello:
        return greeting

    link = Link(f"ws://{address}/agent/v1/socket", credential, say_hello, told.put_nowait)
    running = asyncio.create_task(link.run())
    try:
        assert isinstance(await asyncio.wait_for(told.get(), 10), protocol.Welcome)
        desired = await asyncio.wait_for(told.get(), 10)
        assert [each.lease_id for each in desired.leases] == [lease.pk]
        user = await in_database(make_user)("ada", await Tenant.objects.aget(name="segmentation"))
        headers = {"Cookie": cookie_of(await signed_in(user))}
        async with connect(f"ws://{address}/live/", origin=f"http://{address}", additional_headers=headers) as page:
            await page.send(json.dumps({"watch": [f"l{lease.pk}"]}))
            began = time.monotonic()
            sample = protocol.LeaseSample(lease_id=lease.pk, utilization=33.0)
            await link.send(protocol.Samples(at=time.time(), gpus=(), leases=(sample,)))
            async with asyncio.timeout(2):
                while f"l{lease.pk}:util" not in json.loads(await page.recv())["v"]:
                    pass
            assert time.monotonic() - began < 2
            await in_database(tell_tenant_on_commit)(lease.reservation.tenant_id, "reservation.changed", reservation=1)
            async with asyncio.timeout(5):
                while "fact" not in json.loads(await page.recv()):
                    pass
    finally:
        running.cancel()
        await asyncio.wait([running], timeout=10)
