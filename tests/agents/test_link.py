"""The connection to the portal: back-off with jitter, what a refusal says, frames that fit."""

import asyncio
import re
import time

import pytest
from websockets.asyncio.server import serve

from agents.enrolment import Identity
from agents.link import MOST_BACKOFF_SECONDS, Link
from agents.logs import LogWatch, _whole_characters
from agents.logtext import plain_text
from agents.protocol import (
    MAX_FRAME_BYTES,
    Desired,
    DesiredLease,
    Hello,
    LeaseEvent,
    Refused,
    WorkloadSpec,
    decode_from_agent,
    decode_from_portal,
    encode,
)
from agents.reports import reports


async def hello():
    return Hello(version=1, agent_version="0", boot_id="b", driver_version="d", engine="process", sent_at=time.time(),
                 gpus=(), present=(), observed_generation=0)


def link(url="ws://127.0.0.1:9/agent/v1/socket", jitter=lambda: 1.0):
    return Link(url, "secret", hello, lambda message: None, jitter)


def test_waits_double_from_half_a_second_to_a_quarter_of_a_minute_and_jitter_halves_them_at_most():
    longest = [link()._backoff(failures) for failures in range(8)]
    assert longest == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    shortest = [link(jitter=lambda: 0.0)._backoff(failures) for failures in range(8)]
    assert shortest == [wait / 2 for wait in longest]
    assert max(longest) == MOST_BACKOFF_SECONDS


async def test_a_portal_that_accepts_and_closes_at_once_is_not_hammered(caplog):
    arrivals = []

    async def close(socket):
        arrivals.append(socket)

    async with serve(close, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        task = asyncio.create_task(link(f"ws://127.0.0.1:{port}/").run())
        await asyncio.sleep(4)
        task.cancel()
    assert 1 <= len(arrivals) <= 3
    assert len([record for record in caplog.records if "not connected" in record.message]) == len(arrivals)


@pytest.mark.parametrize(("answer", "words"), [
    (Refused("revoked", "The node was retired."), "revoked.*The node was retired"),
    ("{}", "does not fit"),
])
async def test_a_refusal_is_told_and_tried_again_later(caplog, answer, words):
    async def refuse(socket):
        await socket.recv()
        await socket.send(answer if isinstance(answer, str) else encode(answer))

    async with serve(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        task = asyncio.create_task(link(f"ws://127.0.0.1:{port}/").run())
        await asyncio.sleep(0.5)
        assert not task.done()
        task.cancel()
    assert re.search(words, caplog.text)


async def test_a_credential_that_is_not_accepted_says_what_to_do(caplog):
    async with serve(lambda socket: None, "127.0.0.1", 0,
                     process_request=lambda connection, request: connection.respond(403, "no\n")) as server:
        port = server.sockets[0].getsockname()[1]
        task = asyncio.create_task(link(f"ws://127.0.0.1:{port}/").run())
        await asyncio.sleep(0.5)
        task.cancel()
    assert "enrol the node anew" in caplog.text


async def test_nothing_is_sent_while_the_link_is_down():
    assert not await link().send(await hello())


def test_the_socket_is_as_safe_as_the_portals_address():
    assert Identity("https://berth.example.org", 1, "n", "c").socket_url() == "wss://berth.example.org/agent/v1/socket"
    assert Identity("http://127.0.0.1:8000", 1, "n", "c").socket_url() == "ws://127.0.0.1:8000/agent/v1/socket"


def test_many_events_with_long_tails_are_told_in_frames_that_fit():
    events = tuple(LeaseEvent(str(n), n, "freed", 1.0, log_tail="\u00e9" * 16384) for n in range(700))
    frames = [encode(report) for report in reports(1, (), events, ())]
    assert max(len(frame.encode()) for frame in frames) < MAX_FRAME_BYTES
    assert [event.id for frame in frames for event in decode_from_agent(frame).events] == [str(n) for n in range(700)]


def test_a_document_full_of_long_commands_is_taken():
    spec = WorkloadSpec(image="", command=("x" * 4000,) * 8)
    leases = tuple(
        DesiredLease(
            lease_id=n, reservation_id=n, tenant_id=1, rank=0, ranks=1, gpu_uuid="GPU-1", profile="1g.10gb",
            profile_id=19, start=0, size=1, starts_at=1.0, ends_at=2.0, workload=spec)
        for n in range(300))
    frame = encode(Desired(generation=1, leases=leases))
    assert len(frame) > 8 * MAX_FRAME_BYTES and len(decode_from_portal(frame).leases) == 300


@pytest.mark.parametrize(("data", "text"), [
    (b"a\x1b[31mb\x1b[0mc", "abc"), (b"\x1b]0;title\x07x", "x"), (b"a\x00\x07\x08b\tc\n", "ab\tc\n"),
    (b"10%\r20%\r\n", "10%\n20%\n"), (b"\xff\xfe", "\ufffd\ufffd"), ("\u202eabc".encode(), "abc")])
def test_output_is_shown_as_text_and_nothing_else(data, text):
    assert plain_text(data) == text


def test_a_character_that_is_not_complete_waits_for_the_rest():
    euro = "\u20ac".encode()
    assert _whole_characters(b"ab" + euro[:2]) == b"ab"
    assert _whole_characters(b"ab" + euro) == b"ab" + euro
    assert _whole_characters(b"ab") == b"ab"
    assert _whole_characters(b"") == b""


def test_a_reader_is_forgotten_after_a_minute_and_a_new_one_gets_the_tail(node):
    now = [0.0]
    engine = node.engine()
    engine.start(node.lease(1, command=("sh", "-c", "echo first; sleep 60")), "MIG-x")
    watch = LogWatch(engine, steady=lambda: now[0])
    assert watch.read_new() == []
    watch.watch((1,))
    give_up_at = time.monotonic() + 5
    while not (chunks := watch.read_new()) and time.monotonic() < give_up_at:
        time.sleep(0.02)
    assert [(chunk.offset, chunk.text) for chunk in chunks] == [(0, "first\n")]
    assert watch.read_new() == []
    now[0] = 61.0
    assert watch.read_new() == []
    watch.watch((1,))
    assert [chunk.text for chunk in watch.read_new()] == ["first\n"]
