"""The socket of an open page: values once a second and small facts, for as long as its session and rights last."""

import asyncio
import contextlib
import logging
import uuid
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from portal.events import user_group
from portal.live.database import in_database
from portal.live.hub import Hub, hub
from portal.live.outbox import Outbox
from portal.live.rates import Allowance
from portal.live.socket import Socket
from portal.live.store import Tail
from portal.live.watches import Access, BadWatch, Sight, Wanted, access_of, read_wanted, session_mark, sight_of

log = logging.getLogger(__name__)

CHECK_SECONDS = 60
SOCKETS_MOST = 10
MESSAGES_PER_SECOND, MESSAGES_AT_ONCE = 2, 20
BAD_CODE, RIGHTS_CODE, STALLED_CODE, FLOOD_CODE = 4400, 4403, 4408, 4429


async def browser_socket(scope: dict, receive: Any, send: Any) -> None:
    """ASGI application of ``/live/``, inside the checks of Origin and session."""
    socket = Socket(scope, receive, send)
    # The cookie alone: a socket reads its session and never writes it, so traffic here keeps no session alive.
    session_key = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
    access = await in_database(access_of)(session_key) if session_key else None
    if access is None:
        await receive()
        await socket.close(RIGHTS_CODE)  # before it is accepted: HTTP 403
        return
    await BrowserSocket(socket, session_key, access).serve(hub())


class BrowserSocket:
    """Checks rights at the beginning, each minute and whenever it hears that they changed."""

    def __init__(self, socket: Socket, session_key: str, access: Access) -> None:
        self.sight = Sight()
        self._socket = socket
        self._id = uuid.uuid4().hex
        self._session_key = session_key
        self._mark = session_mark(session_key)
        self._access = access
        self._wanted = Wanted()
        self._outbox = Outbox(socket)
        self._check = asyncio.Event()
        self._messages = Allowance(MESSAGES_PER_SECOND, MESSAGES_AT_ONCE)
        self._closing: asyncio.Task | None = None

    async def serve(self, shared: Hub) -> None:
        await self._socket.accept()
        held = await shared.store.hold_socket(self._access.user_id, self._id)
        if held > SOCKETS_MOST:
            await shared.store.drop_socket(self._access.user_id, self._id)
            await self._socket.close(FLOOD_CODE)
            return
        tasks = [asyncio.create_task(work) for work in (self._outbox.run(), self._keep_checking(shared))]
        try:
            shared.join_viewer(self)
            await shared.ticker.tick([self])
            async for frame in self._socket.frames():
                await self._take(shared, frame)
            if self._closing is not None:
                await self._closing
        finally:
            for task in tasks:
                task.cancel()
            await shared.leave_viewer(self)
            await shared.store.drop_socket(self._access.user_id, self._id)

    def hear(self, to: str, message: dict) -> None:
        """A message of the channel layer: rights first, then facts about what this person may see."""
        mine = to == user_group(self._access.user_id)
        if mine and message.get("session") == self._mark:
            self._end(RIGHTS_CODE, "rights")
        elif mine and "rights.changed" in (message.get("type"), message.get("fact")):
            self._check.set()
        elif mine or to == "everybody" or self._sees_tenant(to):
            fact = {key: value for key, value in message.items() if key not in ("type", "to")}
            self._offer(self._outbox.offer_fact(fact))

    def offer_frame(self, frame: str) -> None:
        self._outbox.offer_frame(frame)

    def offer_output(self, lease_id: int, tail: Tail) -> None:
        self._offer(self._outbox.offer_output(lease_id, tail))

    def _offer(self, taken: bool) -> None:
        if not taken:
            log.info("a browser of user %s takes nothing and is disconnected", self._access.user_id)
            self._end(STALLED_CODE, "")

    def _sees_tenant(self, to: str) -> bool:
        tenant_id = to.removeprefix("tenant.")
        return tenant_id != to and int(tenant_id) in self._access.tenants

    async def _take(self, shared: Hub, frame: str | bytes) -> None:
        if not self._messages.take():
            await self._socket.close(FLOOD_CODE)
            return
        try:
            self._wanted = read_wanted(frame)
        except BadWatch as error:
            log.info("user %s sends a message that cannot be taken: %s", self._access.user_id, error)
            await self._socket.close(BAD_CODE)
            return
        await self._look(shared)

    async def _look(self, shared: Hub) -> None:
        """Work out what may be seen of what is wanted, and show it at once."""
        try:
            sight = await in_database(sight_of)(self._access, self._wanted)
        except DatabaseError as error:
            log.warning("what user %s may see cannot be read now: %s", self._access.user_id, error)
            return
        if sight.output != self.sight.output:
            self._outbox.forget_output()
        self.sight = sight
        await shared.ticker.tick([self])
        if sight.output is not None:
            lease_id, node_id = sight.output
            await shared.store.watch_output([(node_id, lease_id)])
            for tail in (await shared.store.tails([lease_id])).values():
                self.offer_output(lease_id, tail)

    async def _keep_checking(self, shared: Hub) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._check.wait()
            self._check.clear()
            try:
                access = await in_database(access_of)(self._session_key)
            except DatabaseError as error:
                log.warning("the rights of user %s cannot be checked now: %s", self._access.user_id, error)
                continue
            if access is None or not self._access.tenants <= access.tenants:
                self._end(RIGHTS_CODE, "rights")
                return
            self._access = access
            await shared.store.hold_socket(access.user_id, self._id)
            await self._look(shared)

    def _end(self, code: int, why: str) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(code, why))

    async def _close(self, code: int, why: str) -> None:
        self.sight = Sight()
        self._outbox.shut()
        if why:
            await self._socket.send(f'{{"closed":"{why}"}}')
        await self._socket.close(code, within_seconds=30)
