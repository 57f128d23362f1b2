"""Redis is a doorbell and the newest samples. Without it, what counts goes on, and the logs stay readable."""

import asyncio
import logging
import socket
import time

import pytest
from celery import Celery
from channels.layers import channel_layers
from django.core.cache import cache
from django.db import transaction

from agents import protocol
from portal import events
from portal.inventory.models import Node
from portal.live.database import in_database
from portal.reservations.models import QuarantinedEvent
from portal.tenants.models import Tenant
from scheduler.tasks.watchdog import Watchdog, send_canary
from tests.factories import make_user
from tests.live.parts import a_lease, handed, hello, report, said, samples, shown, some_nodes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def no_redis(settings, tmp_path):
    """Everything that sockets know of Redis points to a server that is not there."""
    nowhere = f"unix://{tmp_path}/nobody.sock"
    settings.REDIS_STORE_URL = nowhere
    layer = settings.CHANNEL_LAYERS["default"]
    settings.CHANNEL_LAYERS = {"default": layer | {"CONFIG": layer["CONFIG"] | {"hosts": [nowhere]}}}
    channel_layers.backends.clear()
    yield
    channel_layers.backends.clear()


async def test_an_agent_is_handed_its_leases_and_its_reports_count(no_redis, as_agent, credential_of, caplog):
    (node,) = await in_database(some_nodes)()
    socket = as_agent(await in_database(credential_of)(node))
    with caplog.at_level(logging.INFO):
        assert await socket.connect()
        await socket.send(await in_database(hello)(node))
        await said(socket, protocol.Welcome)
        lease = await in_database(a_lease)(node)
        await in_database(Node.objects.filter(pk=node.pk).update)(generation=1)
        await handed(socket, lease, within_seconds=15)
        for number in range(5):
            await socket.send(samples([protocol.LeaseSample(lease_id=lease.pk, utilization=5.0)]))
            event = protocol.LeaseEvent(id=f"odd-{number}", lease_id=lease.pk, kind="odd", at=1.0)
            await socket.send(report(events=[event]))
            assert (await said(socket, protocol.Acknowledged)).event_ids == (event.id,)
    assert await QuarantinedEvent.objects.acount() == 5
    lines = [record for record in caplog.records if record.name.startswith("portal.live")]
    assert len(lines) < 20
    assert not any(record.exc_info for record in lines)


async def test_a_page_stays_connected_and_is_told_that_values_are_late(no_redis, signed_in, as_browser):
    (node,) = await in_database(some_nodes)()
    user = await in_database(make_user)("ada", await Tenant.objects.aget(name="segmentation"))
    page = as_browser(await signed_in(user))
    assert await page.connect()
    await page.send(f'{{"watch": ["n{node.pk}"]}}')
    for _ in range(3):
        await shown(page, lambda message: message.get("late") == [f"n{node.pk}"])
        await asyncio.sleep(0)


def test_a_task_that_no_broker_takes_is_logged_and_raises_nothing_into_the_request(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(events, "app", Celery("away", broker=f"redis+socket://{tmp_path}/nobody.sock"))
    with transaction.atomic():
        events.push_desired_on_commit({7})
    (line,) = [record.getMessage() for record in caplog.records if record.name == "portal.events"]
    assert line.startswith("task scheduler.push_desired(7,) not sent")


def test_a_worker_that_reaches_no_broker_is_not_deaf_and_goes_on_watching(tmp_path):
    away = Celery("away", broker=f"redis+socket://{tmp_path}/nobody.sock")
    moments = iter([0, 200, 210])  # begun, heard instead of a canary, looked at
    assert not Watchdog(lambda: send_canary(away, "own"), lambda: False, lambda: next(moments)).is_deaf()


@pytest.fixture
def hung_redis(settings, tmp_path, monkeypatch):
    """A server that takes connections and never answers, under all that a request uses."""
    path = f"{tmp_path}/hung.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(100)
        layer = settings.CHANNEL_LAYERS["default"]
        settings.CHANNEL_LAYERS = {"default": layer | {"CONFIG": layer["CONFIG"] | {"hosts": [f"unix://{path}"]}}}
        settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"unix://{path}"}}
        away = Celery("away", broker=f"redis+socket://{path}")
        away.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
        monkeypatch.setattr(events, "app", away)
        channel_layers.backends.clear()
        yield
        channel_layers.backends.clear()


def test_a_redis_that_hangs_costs_a_request_seconds_and_nothing_else(hung_redis):
    began = time.monotonic()
    with transaction.atomic():
        events.push_desired_on_commit({7})
        events.tell_tenant_on_commit(7, "reservation.changed")
    assert cache.get("sign-ins", 0) == 0
    assert time.monotonic() - began < 20
