"""The agents' socket: who may speak, what is believed, and that nothing a node sends does harm."""

import asyncio
import json
import logging

import pytest
from django.conf import settings
from redis.asyncio import Redis

from agents import protocol
from portal.events import node_group, tell_group
from portal.inventory.enrolment import retire_node
from portal.inventory.models import GpuState, Node
from portal.live.database import in_database
from portal.live.store import Store, output_tail
from portal.reservations.models import QuarantinedEvent
from tests.factories import make_user
from tests.live.parts import a_lease, closed_with, handed, hello, report, said, samples, some_nodes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent_of(as_agent, credential_of):
    """A socket that said hello and was welcomed."""

    async def connect(node: Node):
        socket = as_agent(await in_database(credential_of)(node))
        assert await socket.connect()
        await socket.send(await in_database(hello)(node))
        assert (await said(socket, protocol.Welcome)).node_id == node.pk
        return socket

    return connect


async def refused(socket) -> tuple[str, int]:
    """The code of the refusal and of the close."""
    assert await socket.connect()
    return (await said(socket, protocol.Refused)).code, await closed_with(socket)


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic abc", "", "Bearer " + "x" * 5000])
async def test_a_wrong_credential_is_refused_with_a_reason(opened, header):
    socket = opened("/agent/v1/socket", [(b"authorization", header.encode())])
    assert await refused(socket) == ("revoked", 4401)


async def test_the_credential_of_a_retired_node_is_refused(as_agent, credential_of):
    (node,) = await in_database(some_nodes)()
    credential = await in_database(credential_of)(node)
    await in_database(retire_node)(actor=await in_database(make_user)(), node=node)
    assert await refused(as_agent(credential)) == ("revoked", 4401)


async def test_an_unknown_version_is_refused(as_agent, credential_of):
    (node,) = await in_database(some_nodes)()
    socket = as_agent(await in_database(credential_of)(node))
    await socket.connect()
    await socket.send(await in_database(hello)(node, version=99))
    assert (await said(socket, protocol.Refused)).code == "bad_version"
    assert await closed_with(socket) == 4400


@pytest.mark.parametrize("frame", ["{", "[]", '{"type":"nonsense"}', '{"type":"heartbeat"}', report()])
async def test_the_first_frame_has_to_be_hello(as_agent, credential_of, frame):
    (node,) = await in_database(some_nodes)()
    socket = as_agent(await in_database(credential_of)(node))
    await socket.connect()
    await socket.send(frame)
    assert (await said(socket, protocol.Refused)).code == "bad_frame"
    assert await closed_with(socket) == 4400


async def test_hello_is_answered_by_welcome_and_the_desired_document(agent_of):
    (node,) = await in_database(some_nodes)()
    lease = await in_database(a_lease)(node)
    socket = await agent_of(node)
    desired = await said(socket, protocol.Desired)
    assert [each.lease_id for each in desired.leases] == [lease.pk]
    assert (await Node.objects.aget(pk=node.pk)).last_seen_at > node.last_seen_at


async def test_a_change_reaches_the_agent_by_its_bell(agent_of):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    first = await said(socket, protocol.Desired)
    lease = await in_database(a_lease)(node)
    await in_database(tell_group)(node_group(node.pk), {"type": "desired.changed"})
    assert first.leases == ()
    assert await handed(socket, lease, within_seconds=3)


async def test_a_change_reaches_the_agent_without_any_bell(agent_of):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    first = await said(socket, protocol.Desired)
    await in_database(Node.objects.filter(pk=node.pk).update)(generation=first.generation + 1)
    assert (await said(socket, protocol.Desired, within_seconds=8)).generation == first.generation + 1


async def test_a_report_is_acknowledged_and_what_is_not_the_nodes_own_goes_to_quarantine(agent_of):
    node, other = await in_database(some_nodes)(2)
    theirs = await in_database(a_lease)(other)
    socket = await agent_of(node)
    event = protocol.LeaseEvent(id=protocol.event_id(theirs.pk, "freed"), lease_id=theirs.pk, kind="freed", at=1.0)
    await socket.send(report(events=[event]))
    assert (await said(socket, protocol.Acknowledged)).event_ids == (event.id,)
    await theirs.arefresh_from_db()
    assert theirs.state == "active"
    assert await QuarantinedEvent.objects.filter(event_id=event.id, node=node).aexists()


async def test_frames_that_do_not_decode_are_logged_once_and_end_the_connection_after_twenty(agent_of, caplog):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    with caplog.at_level(logging.WARNING, "portal.live"):
        for _ in range(20):
            await socket.send("nonsense")
        assert (await said(socket, protocol.Refused)).code == "bad_frame"
    assert await closed_with(socket) == 4400
    assert len([line for line in caplog.records if "cannot be taken" in line.message]) == 1


@pytest.mark.parametrize(
    "frame",
    [
        report(events=[protocol.LeaseEvent(id="a\0b", lease_id=1, kind="freed", at=1.0)]),
        report(events=[protocol.LeaseEvent(id="huge", lease_id=2**62, kind="active", at=1.0)]),
        '{"type":"report","observed_generation":0,"present":[],"gpus":[],"events":'
        '[{"id":"x","lease_id":99999999999999999999999,"kind":"freed","at":1}]}',
        report(generation=1 << 53),
        '{"type":"samples","at":1,"gpus":[],"leases":[{"lease_id":-5,"utilization":1e308}]}',
        samples(leases=[protocol.LeaseSample(lease_id=2**62, utilization=50.0)]),
        protocol.encode(protocol.LogChunk(lease_id=2**62, offset=0, text="x")),
        '{"type":"samples","at":NaN,"gpus":[],"leases":[]}',
        "x" * (protocol.MAX_FRAME_BYTES + 1),
        '{"type":"hello"}',
    ],
)
async def test_nonsense_never_breaks_the_connection(agent_of, frame):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    await socket.send(frame)
    await socket.send(report())
    assert (await said(socket, protocol.Acknowledged)) is not None


async def test_the_second_connection_of_a_node_replaces_the_first(agent_of):
    (node,) = await in_database(some_nodes)()
    first = await agent_of(node)
    second = await agent_of(node)
    assert await closed_with(first) in (4401, 4409)
    await second.send(report())
    assert await said(second, protocol.Acknowledged)


async def test_the_same_credential_twice_keeps_the_newer_connection(as_agent, credential_of):
    (node,) = await in_database(some_nodes)()
    credential, greeting = await in_database(credential_of)(node), await in_database(hello)(node)
    sockets = [as_agent(credential), as_agent(credential)]
    for socket in sockets:
        await socket.connect()
        await socket.send(greeting)
        await said(socket, protocol.Desired)
    assert await closed_with(sockets[0]) == 4409
    await sockets[1].send(report())
    assert await said(sockets[1], protocol.Acknowledged)


async def test_a_node_that_is_retired_while_connected_is_closed_at_once(agent_of):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    await in_database(retire_node)(actor=await in_database(make_user)(), node=node)
    assert (await said(socket, protocol.Refused, within_seconds=3)).code == "revoked"
    assert await closed_with(socket) == 4401


async def test_a_revocation_whose_bell_is_lost_is_found_all_the_same(agent_of):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    await in_database(Node.objects.filter(pk=node.pk).update)(credential_hash="")
    assert await closed_with(socket, within_seconds=10) == 4401


async def test_samples_of_other_nodes_leases_are_not_stored(agent_of):
    node, other = await in_database(some_nodes)(2)
    mine, theirs = await in_database(a_lease)(node), await in_database(a_lease)(other)
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    told = [protocol.LeaseSample(lease_id=lease.pk, utilization=40.0) for lease in (mine, theirs)]
    await socket.send(samples(told))
    await socket.send(report())
    await said(socket, protocol.Acknowledged)
    snapshot = (await Store().snapshots([node.pk]))[node.pk]
    assert set(snapshot.leases) == {mine.pk}


async def test_a_gpu_that_gets_lost_is_faulty_after_the_next_report(agent_of):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    greeting = json.loads(await in_database(hello)(node))
    gone = [greeting["gpus"][0] | {"healthy": False, "fault": "GPU is lost"}]
    await socket.send(json.dumps(json.loads(report()) | {"gpus": gone}))
    await said(socket, protocol.Acknowledged)
    gpu = await node.gpus.aget()
    assert (gpu.state, gpu.fault) == (GpuState.FAULTY, "GPU is lost")


async def test_an_agent_is_asked_for_the_output_that_somebody_reads(agent_of):
    (node,) = await in_database(some_nodes)()
    lease = await in_database(a_lease)(node)
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    await Store().watch_output([(node.pk, lease.pk)])
    assert (await said(socket, protocol.WatchLogs, within_seconds=5)).lease_ids == (lease.pk,)


async def test_whoever_asks_the_api_for_output_has_the_agent_asked_too(agent_of):
    (node,) = await in_database(some_nodes)()
    lease = await in_database(a_lease)(node)
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    assert await in_database(output_tail)(lease.pk, node.pk) == ""
    assert (await said(socket, protocol.WatchLogs, within_seconds=5)).lease_ids == (lease.pk,)
    await socket.send(protocol.encode(protocol.LogChunk(lease_id=lease.pk, offset=0, text="step 1")))
    for _ in range(50):
        if text := await in_database(output_tail)(lease.pk, node.pk):
            break
        await asyncio.sleep(0.1)
    assert text == "step 1"


async def test_after_redis_has_forgotten_everything_changes_still_arrive(agent_of):
    (node,) = await in_database(some_nodes)()
    socket = await agent_of(node)
    await said(socket, protocol.Desired)
    async with Redis.from_url(settings.REDIS_STORE_URL) as redis:
        await redis.flushall()
    await in_database(Node.objects.filter(pk=node.pk).update)(generation=1)
    assert (await said(socket, protocol.Desired, within_seconds=10)).generation == 1


async def test_an_address_that_is_no_socket_is_refused_cleanly(opened):
    assert not await opened("/nowhere/", []).connect()
