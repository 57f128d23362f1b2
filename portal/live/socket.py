"""One WebSocket as ASGI hands it over.

Not a consumer of Channels: that one dies with the channel layer when Redis goes away, and hops to a thread for every
frame. What the layer has to say reaches sockets through the doorbell of their process.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

GONE_CODE = 1006
SEND_SECONDS = 20


class Socket:
    """Frames in, frames out, closed once. Sending to a peer that is gone does nothing; ``frames`` then ends."""

    def __init__(self, scope: dict, receive: Any, send: Any) -> None:
        self.scope = scope
        self.close_code: int | None = None
        self._receive = receive
        self._send = send
        self._waiting: asyncio.Task | None = None

    @property
    def open(self) -> bool:
        return self.close_code is None

    def header(self, name: bytes) -> str:
        """The value of a request header, or "" when there is none."""
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == name), "")

    async def accept(self) -> None:
        await self._receive()
        await self._write({"type": "websocket.accept"}, SEND_SECONDS)

    async def frames(self) -> AsyncIterator[str | bytes]:
        """What the peer sends, one after another, until either side closes."""
        while self.open:
            message = await self._next()
            if message["type"] == "websocket.disconnect":
                self._mark_closed(message.get("code") or GONE_CODE)
                return
            text = message.get("text")
            yield text if text is not None else message.get("bytes") or b""

    async def send(self, text: str) -> None:
        """A peer that takes nothing for 20 s is given up."""
        if self.open:
            await self._write({"type": "websocket.send", "text": text}, SEND_SECONDS)

    async def close(self, code: int, within_seconds: float = 5) -> None:
        """Say why and stop reading. A peer that takes nothing for ``within_seconds`` is left without the reason."""
        if not self.open:
            return
        self.close_code = code
        await self._write({"type": "websocket.close", "code": code}, within_seconds)
        self._stop_reading()

    async def _next(self) -> dict:
        self._waiting = asyncio.current_task()
        try:
            return await self._receive()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.open or task is None:
                raise
            task.uncancel()  # it was our own close, from another task
            return {"type": "websocket.disconnect"}
        finally:
            self._waiting = None

    async def _write(self, message: dict, within_seconds: float) -> None:
        try:
            async with asyncio.timeout(within_seconds):
                await self._send(message)
        except (OSError, RuntimeError):  # late, gone, or closed by the server: TimeoutError is an OSError
            self._mark_closed(GONE_CODE)
            self._stop_reading()

    def _mark_closed(self, code: int) -> None:
        if self.close_code is None:
            self.close_code = code

    def _stop_reading(self) -> None:
        if self._waiting is not None and self._waiting is not asyncio.current_task():
            self._waiting.cancel()
