"""The one connection to the portal: outbound, kept up for ever, never busy when it fails."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from agents.protocol import (
    MAX_DOCUMENT_BYTES,
    SUPPORTED_VERSIONS,
    FromAgent,
    FromPortal,
    Hello,
    ProtocolError,
    Refused,
    Welcome,
    decode_from_portal,
    encode,
)

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 0.5
MOST_BACKOFF_SECONDS = 15.0
_STEADY_SECONDS = 10.0
_WELCOME_SECONDS = 15.0
_SEND_SECONDS = 15.0
_REFUSED_STATUS = (401, 403)


class LinkRefused(Exception):
    """The portal does not want this agent; the text says why and what to do."""


class Link:
    """Says hello, hands over what the portal sends, sends while it is up. ``on_message`` also gets the welcome."""

    def __init__(
        self, url: str, credential: str, hello: Callable[[], Awaitable[Hello]],
        on_message: Callable[[FromPortal], None], jitter: Callable[[], float] = random.random
    ) -> None:
        self._url = url
        self._credential = credential
        self._hello = hello
        self._on_message = on_message
        self._jitter = jitter
        self._connection: ClientConnection | None = None
        self._sending = asyncio.Lock()

    @property
    def up(self) -> bool:
        return self._connection is not None

    async def run(self) -> None:
        """Keep the connection up until cancelled. The back-off starts over only after a connection that held."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._serve_once()
                why = "the portal closed the connection"
            except LinkRefused as refusal:
                why = str(refusal)
            except InvalidStatus as error:
                why = _explain(error.response.status_code)
            except (OSError, TimeoutError, WebSocketException, ProtocolError) as error:
                why = str(error) or type(error).__name__
            failures = 0 if loop.time() - began > _STEADY_SECONDS else failures + 1
            wait = self._backoff(failures)
            log.warning("not connected to the portal: %s; next try in %.1f s", why, wait)
            await asyncio.sleep(wait)

    async def send(self, message: FromAgent) -> bool:
        """Whether it was handed to the network. A connection that takes nothing for 15 s is given up."""
        async with self._sending:
            connection = self._connection
            if connection is None:
                return False
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await connection.send(encode(message))
            except (OSError, TimeoutError, WebSocketException) as error:
                log.warning("a frame could not be sent: %s", error or type(error).__name__)
                await self.drop()
                return False
            return True

    async def drop(self) -> None:
        """End this connection; ``run`` makes a new one, with a new hello."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.transport.abort()

    def _backoff(self, failures: int) -> float:
        longest = min(MOST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(failures, 10))
        return longest * (0.5 + 0.5 * self._jitter())

    async def _serve_once(self) -> None:
        hello = await self._hello()
        headers = {"Authorization": f"Bearer {self._credential}"}
        async with connect(
            self._url, additional_headers=headers, max_size=MAX_DOCUMENT_BYTES, open_timeout=10, ping_interval=20,
            ping_timeout=20, close_timeout=2, compression=None,
        ) as connection:
            await connection.send(encode(hello))
            async with asyncio.timeout(_WELCOME_SECONDS):
                welcome = await self._first(connection)
            log.info("connected to the portal as node %s", welcome.node_id)
            self._on_message(welcome)
            self._connection = connection
            try:
                async for frame in connection:
                    self._take(frame)
            finally:
                self._connection = None

    async def _first(self, connection: ClientConnection) -> Welcome:
        message = decode_from_portal(await connection.recv())
        if isinstance(message, Refused):
            raise LinkRefused(f"the portal refused ({message.code}): {message.detail}")
        if not isinstance(message, Welcome):
            raise LinkRefused("the portal did not answer hello with welcome")
        if message.version not in SUPPORTED_VERSIONS:
            raise LinkRefused(f"the portal speaks version {message.version}; update this agent")
        return message

    def _take(self, frame: str | bytes) -> None:
        try:
            message = decode_from_portal(frame)
        except ProtocolError as error:
            log.warning("a frame of the portal was left out: %s", error)
            return
        if isinstance(message, Refused):
            log.warning("the portal refused (%s): %s", message.code, message.detail)
        else:
            self._on_message(message)


def _explain(status: int) -> str:
    if status in _REFUSED_STATUS:
        return f"the portal does not accept this node's credential ({status}); it may be revoked: enrol the node anew"
    return f"the portal answered {status}"
