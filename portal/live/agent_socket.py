"""The one connection of a node's agent: hello, welcome, then the desired document, each time it changes."""

import asyncio
import datetime as dt
import logging
import time
import uuid
from typing import Any

from django.db import DatabaseError, DataError, IntegrityError

from agents import protocol
from portal.audit.origin import Via, coming_from
from portal.inventory.enrolment import node_of_credential
from portal.inventory.models import Node
from portal.live.agent_frames import AgentFrames
from portal.live.database import in_database
from portal.live.hub import Hub, hub
from portal.live.node_rows import take_hello
from portal.live.rates import Allowance
from portal.live.socket import Socket
from portal.reservations.dispatch import desired_document

log = logging.getLogger(__name__)

HELLO_SECONDS = 10
BAD_FRAMES_MOST = 20
FRAMES_PER_SECOND, FRAMES_AT_ONCE = 50, 500
BYTES_PER_SECOND, BYTES_AT_ONCE = 2 << 20, 16 << 20
NOTHING_PUSHED = -1  # older than any generation, so that the next round tries again
BAD_CODE, REFUSED_CODE, REPLACED_CODE, FLOOD_CODE, BUSY_CODE = 4400, 4401, 4409, 4429, 1013
# What a database says to content that cannot be stored; a ValueError is psycopg's word for a NUL in a text.
UNSTORABLE = (DataError, IntegrityError, ValueError, OverflowError)


async def agent_socket(scope: dict, receive: Any, send: Any) -> None:
    """ASGI application of ``/agent/v1/socket``."""
    peer = scope.get("client") or [""]
    with coming_from(Via.AGENT, peer[0] or ""):
        await AgentSocket(Socket(scope, receive, send)).serve()


class AgentSocket:
    """Speaks agents/protocol.py with one node. Nothing that a node sends raises out of here or reaches another node."""

    def __init__(self, socket: Socket) -> None:
        self.node_id = 0
        self.connection_id = uuid.uuid4().hex
        self.credential_hash = ""
        self.pushed_generation: int | None = None  # None while the newest document is on its way
        self._socket = socket
        self._wake = asyncio.Event()
        self._push_wanted = False
        self._outputs_wanted: set[int] | None = None
        self._tasks: set[asyncio.Task] = set()
        self._bad_frames = 0
        self._frames = Allowance(FRAMES_PER_SECOND, FRAMES_AT_ONCE)
        self._bytes = Allowance(BYTES_PER_SECOND, BYTES_AT_ONCE)

    async def serve(self) -> None:
        await self._socket.accept()
        try:
            node = await self._known_node()
            hello = await self._hello() if node else None
            if node is None or hello is None or not await self._welcome(node, hello):
                return
            await self._converse(hub(), node, hello)
        except DatabaseError as error:
            log.warning("node %s: the database does not answer: %s", self.node_id or "unknown", error)
            await self._socket.close(BUSY_CODE)

    def wake(self) -> None:
        """The desired document may have changed; several calls make one push of the newest."""
        self._push_wanted = True
        self._wake.set()

    def ask_for_output(self, lease_ids: set[int]) -> None:
        self._outputs_wanted = lease_ids
        self._wake.set()

    def dismiss(self, why: str) -> None:
        log.info("node %s: connection closed: %s", self.node_id, why)
        if why == "revoked":
            self._start(self._refuse("revoked", "This node is retired or has a newer credential.", REFUSED_CODE))
        else:
            self._start(self._socket.close(REPLACED_CODE))

    async def _known_node(self) -> Node | None:
        scheme, _, credential = self._socket.header(b"authorization").partition(" ")
        node = None
        if scheme.lower() == "bearer" and 0 < len(credential) <= 256:
            node = await in_database(node_of_credential)(credential.strip())
        if node is None:
            await self._refuse("revoked", "This credential is not known, or its node is retired.", REFUSED_CODE)
            return None
        self.node_id, self.credential_hash = node.pk, node.credential_hash
        return node

    async def _hello(self) -> protocol.Hello | None:
        """The first frame; a connection that sends another, or none in time, is closed."""
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                async for frame in self._socket.frames():
                    message = protocol.decode_from_agent(frame)
                    if isinstance(message, protocol.Hello):
                        return message
                    await self._refuse("bad_frame", "The first frame has to be hello.", BAD_CODE)
        except TimeoutError:
            await self._refuse("bad_frame", f"No hello within {HELLO_SECONDS} s.", BAD_CODE)
        except protocol.ProtocolError as error:
            await self._refuse("bad_frame", str(error)[:1000], BAD_CODE)
        return None

    async def _welcome(self, node: Node, hello: protocol.Hello) -> bool:
        if hello.version not in protocol.SUPPORTED_VERSIONS:
            spoken = ", ".join(map(str, protocol.SUPPORTED_VERSIONS))
            detail = f"This portal speaks version {spoken} and the agent {hello.version}."
            await self._refuse("bad_version", detail, BAD_CODE)
            return False
        now = dt.datetime.now(dt.UTC)
        try:
            await in_database(take_hello)(node, hello, now)
        except UNSTORABLE as error:
            log.warning("node %s: hello cannot be stored: %s", node.pk, error)
            await self._refuse("bad_frame", "This hello holds values that cannot be stored.", BAD_CODE)
            return False
        welcome = protocol.Welcome(version=protocol.VERSION, node_id=node.pk, now=time.time())
        await self._socket.send(protocol.encode(welcome))
        return True

    async def _converse(self, shared: Hub, node: Node, hello: protocol.Hello) -> None:
        frames = AgentFrames(shared, node.pk, self._socket, hello)
        try:
            await shared.join_agent(self)
            self._start(self._push(frames))
            self.wake()
            async for frame in self._socket.frames():
                await self._take(frames, frame)
        finally:
            for task in self._tasks:
                task.cancel()
            await shared.leave_agent(self)

    async def _take(self, frames: AgentFrames, frame: str | bytes) -> None:
        if not self._frames.take() or not self._bytes.take(len(frame)):
            log.warning("node %s sends too much and is disconnected", self.node_id)
            await self._socket.close(FLOOD_CODE)
            return
        try:
            await frames.take(protocol.decode_from_agent(frame))
        except (protocol.ProtocolError, *UNSTORABLE) as error:
            await self._count_bad(error)
        except DatabaseError as error:
            # Nothing is acknowledged, so the agent tells it again.
            log.warning("node %s: a frame could not be taken in now: %s", self.node_id, error)

    async def _count_bad(self, error: Exception) -> None:
        self._bad_frames += 1
        if self._bad_frames == 1:
            log.warning("node %s sends a frame that cannot be taken: %s", self.node_id, error)
        if self._bad_frames >= BAD_FRAMES_MOST:
            detail = f"{BAD_FRAMES_MOST} frames could not be taken; the last: {error}"
            await self._refuse("bad_frame", detail[:1000], BAD_CODE)

    async def _push(self, frames: AgentFrames) -> None:
        """Send the newest desired document and the list of watched outputs whenever woken."""
        while self._socket.open:
            await self._wake.wait()
            self._wake.clear()
            wanted, self._outputs_wanted = self._outputs_wanted, None
            if wanted is not None:
                ids = tuple(sorted(wanted))[:1024]
                await self._socket.send(protocol.encode(protocol.WatchLogs(lease_ids=ids)))
            if self._push_wanted:
                self._push_wanted = False
                await self._push_document(frames)

    async def _push_document(self, frames: AgentFrames) -> None:
        self.pushed_generation = None
        try:
            document = await in_database(desired_document)(self.node_id)
            await frames.learn_belongings()
        except DatabaseError as error:
            log.warning("node %s: its document cannot be read now: %s", self.node_id, error)
            self.pushed_generation = NOTHING_PUSHED
            return
        await self._socket.send(protocol.encode(document))
        self.pushed_generation = document.generation

    async def _refuse(self, code: str, detail: str, close_code: int) -> None:
        await self._socket.send(protocol.encode(protocol.Refused(code=code, detail=detail)))
        await self._socket.close(close_code)

    def _start(self, work) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
