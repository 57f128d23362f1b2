"""What a page is shown: what was measured, when it was measured, and only what its reader may see."""

import asyncio
import json
import time

import pytest
from django.conf import settings
from redis.asyncio import Redis

from agents import protocol
from portal.events import tell_tenant_on_commit
from portal.inventory.models import Node
from portal.live.database import in_database
from portal.live.store import Snapshot, Store
from portal.reservations.models import Lease
from portal.tenants.models import Tenant
from tests.factories import make_tenant, make_user
from tests.live.parts import a_lease, closed_with, has_value, hello, said, samples, shown, some_nodes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def scene(signed_in, as_browser):
    """Two nodes with a lease each, of the project and of another team, and a page of the project's member."""

    class Scene:
        nodes: list[Node]
        mine: Lease
        theirs: Lease

        async def page(self, tenant: str = "segmentation"):
            user = await in_database(make_user)("", await Tenant.objects.aget(name=tenant))
            socket = as_browser(await signed_in(user))
            assert await socket.connect()
            return socket

    here = Scene()
    here.nodes = await in_database(some_nodes)(2)
    other = await in_database(make_tenant)("speech-lab", await Tenant.objects.aget(parent=None))
    here.mine = await in_database(a_lease)(here.nodes[0])
    here.theirs = await in_database(a_lease)(here.nodes[1], other)
    return here


async def measured(lease: Lease, node: Node, age_seconds: float = 0, **values) -> None:
    sample = protocol.LeaseSample(lease_id=lease.pk, **values)
    await Store().put_snapshot(node.pk, Snapshot(time.time() - age_seconds, {lease.pk: sample}, {}))


def watching(*keys: str, log: int | None = None) -> str:
    return json.dumps({"watch": keys, "log": log})


async def test_a_new_watch_is_answered_at_once(scene):
    await measured(scene.mine, scene.nodes[0], utilization=46.25)
    socket = await scene.page()
    began = time.monotonic()
    await socket.send(watching(f"l{scene.mine.pk}"))
    await shown(socket, has_value(f"l{scene.mine.pk}:util"))
    assert time.monotonic() - began < 0.5


async def test_what_cannot_be_measured_stays_null(scene):
    await measured(scene.mine, scene.nodes[0], utilization=46.26, tensor=None, memory_used_mib=0)
    socket = await scene.page()
    await socket.send(watching(f"l{scene.mine.pk}"))
    values = (await shown(socket, has_value(f"l{scene.mine.pk}:util")))["v"]
    key = f"l{scene.mine.pk}"
    assert (values[f"{key}:util"], values[f"{key}:tensor"], values[f"{key}:mem"]) == (46.3, None, 0)


async def test_a_frame_never_holds_another_tenants_lease(scene):
    for lease, node in ((scene.mine, scene.nodes[0]), (scene.theirs, scene.nodes[1])):
        await measured(lease, node, utilization=10.0)
    socket = await scene.page()
    await socket.send(watching(f"l{scene.mine.pk}", f"l{scene.theirs.pk}", "l999999"))
    frame = await shown(socket, has_value(f"l{scene.mine.pk}:util"))
    assert {key.split(":")[0] for key in frame["v"]} == {f"l{scene.mine.pk}"}
    assert frame["late"] == []


async def test_the_root_sees_all(scene):
    await measured(scene.theirs, scene.nodes[1], utilization=10.0)
    socket = await scene.page("northquay")
    await socket.send(watching(f"l{scene.theirs.pk}"))
    await shown(socket, has_value(f"l{scene.theirs.pk}:util"))


async def test_old_values_are_late_and_not_repeated(scene):
    await measured(scene.mine, scene.nodes[0], age_seconds=settings.SAMPLE_STALE_SECONDS + 2, utilization=46.0)
    socket = await scene.page()
    keys = (f"l{scene.mine.pk}", f"n{scene.nodes[0].pk}", f"g{(await scene.nodes[0].gpus.aget()).pk}")
    await socket.send(watching(*keys))
    frame = await shown(socket, has_value(f"{keys[1]}:age"))
    assert set(frame["late"]) == set(keys)
    assert set(frame["v"]) == {f"{keys[1]}:age"}
    assert frame["v"][f"{keys[1]}:age"] >= 5


async def test_a_node_that_was_never_heard_is_late(scene):
    socket = await scene.page()
    await socket.send(watching(f"n{scene.nodes[0].pk}"))
    frame = await shown(socket, has_value(f"n{scene.nodes[0].pk}:age"))
    assert (frame["v"], frame["late"]) == ({f"n{scene.nodes[0].pk}:age": None}, [f"n{scene.nodes[0].pk}"])


async def test_a_sample_reaches_the_page_within_two_seconds(scene, as_agent, credential_of):
    agent = as_agent(await in_database(credential_of)(scene.nodes[0]))
    await agent.connect()
    await agent.send(await in_database(hello)(scene.nodes[0]))
    await said(agent, protocol.Desired)
    page = await scene.page()
    await page.send(watching(f"l{scene.mine.pk}"))
    for value in (11.0, 22.0):
        began = time.monotonic()
        await agent.send(samples([protocol.LeaseSample(lease_id=scene.mine.pk, utilization=value)]))
        await shown(page, lambda message, value=value: message.get("v", {}).get(f"l{scene.mine.pk}:util") == value)
        assert time.monotonic() - began < 2


async def test_values_come_back_after_redis_has_forgotten_everything(scene, as_agent, credential_of):
    agent = as_agent(await in_database(credential_of)(scene.nodes[0]))
    await agent.connect()
    await agent.send(await in_database(hello)(scene.nodes[0]))
    await said(agent, protocol.Desired)
    page = await scene.page()
    await page.send(watching(f"l{scene.mine.pk}"))
    sample = samples([protocol.LeaseSample(lease_id=scene.mine.pk, utilization=11.0)])
    await agent.send(sample)
    await shown(page, has_value(f"l{scene.mine.pk}:util"))
    async with Redis.from_url(settings.REDIS_STORE_URL) as redis:
        await redis.flushall()
    await shown(page, lambda message: f"l{scene.mine.pk}" in message.get("late", []))
    await agent.send(sample)
    await shown(page, has_value(f"l{scene.mine.pk}:util"))


async def test_output_reaches_the_page_once_and_in_order(scene):
    store, lease = Store(), scene.mine.pk
    await store.append_output(protocol.LogChunk(lease_id=lease, offset=0, text="one\n"))
    page = await scene.page()
    await page.send(watching(log=lease))
    assert await shown(page, lambda message: "log" in message) == {"log": lease, "offset": 0, "text": "one\n"}
    assert await store.watched_outputs() == {scene.nodes[0].pk: {lease}}
    await store.append_output(protocol.LogChunk(lease_id=lease, offset=4, text="two\n"))
    await store.append_output(protocol.LogChunk(lease_id=lease, offset=8, text="three\n"))
    second = await shown(page, lambda message: "log" in message)
    assert second["text"].startswith("two\n")
    await store.append_output(protocol.LogChunk(lease_id=lease, offset=0, text="anew\n"))
    anew = await shown(page, lambda message: "log" in message and "anew" in message["text"])
    assert anew == {"log": lease, "offset": 0, "text": "anew\n"}


async def test_another_tenants_output_is_not_shown(scene):
    await Store().append_output(protocol.LogChunk(lease_id=scene.theirs.pk, offset=0, text="secret"))
    page = await scene.page()
    await page.send(watching(f"n{scene.nodes[0].pk}", log=scene.theirs.pk))
    seen = [await page.receive(5) for _ in range(4)]
    assert not any("secret" in text or '"log"' in text for text in seen)
    assert await Store().watched_outputs() == {}


@pytest.mark.parametrize(
    "message",
    ["{", "[]", "5", '{"watch": "l1"}', '{"watch": ["x1"]}', '{"watch": ["l0"]}', '{"watch": ["l1;DROP"]}',
     '{"watch": [1]}', '{"watch": [], "log": -1}', '{"watch": [], "log": 1e30}', '{"watch": ["l' + "9" * 19 + '"]}',
     json.dumps({"watch": ["l1"] * 501}), " " * 5000],
)  # fmt: skip
async def test_a_message_that_is_no_list_of_keys_ends_the_connection(scene, message):
    page = await scene.page()
    await page.send(message)
    assert await closed_with(page) == 4400


async def test_a_page_that_floods_is_disconnected(scene):
    page = await scene.page()
    for _ in range(30):
        await page.send('{"watch": []}')
    assert await closed_with(page) == 4429


async def test_a_stalled_page_is_closed_while_others_hear_everything(scene):
    stalled, well = await scene.page(), await scene.page()
    for page in (stalled, well):
        await shown(page, lambda message: "v" in message)
    stalled.hold()
    tenant = await Tenant.objects.aget(name="segmentation")
    for number in range(160):
        await in_database(tell_tenant_on_commit)(tenant.pk, "reservation.changed", reservation=number)
        if number % 20 == 19:
            await shown(well, lambda message, number=number: message.get("reservation") == number)
    stalled.let_go()
    assert await closed_with(stalled) == 4408


async def test_a_slow_page_gets_the_latest_frame_and_not_all_of_them(scene):
    page = await scene.page()
    await page.send(watching(f"l{scene.mine.pk}"))
    await shown(page, lambda message: message.get("late"))
    page.hold()
    for value in (1.0, 2.0, 3.0):
        await measured(scene.mine, scene.nodes[0], utilization=value)
        await asyncio.sleep(1.1)
    await measured(scene.mine, scene.nodes[0], utilization=4.0)
    await asyncio.sleep(1.1)
    page.let_go()
    key = f"l{scene.mine.pk}:util"
    values = [json.loads(await page.receive(5))["v"].get(key) for _ in range(2)]
    assert values[-1] == 4.0
