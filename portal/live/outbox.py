"""What waits to be sent to one browser: the newest frame only, and facts and output in order, up to a limit."""

import asyncio
from collections import deque

import msgspec

from portal.live.socket import Socket
from portal.live.store import Tail

WAITING_MOST = 100


class Outbox:
    """A browser that reads slowly gets the latest frame, never all of them; one that reads nothing is found full."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._frame = ""
        self._waiting: deque[str] = deque()
        self._news = asyncio.Event()
        self._output_restarts = -1
        self._output_offset = -1

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._socket.send(self._waiting.popleft())
            frame, self._frame = self._frame, ""
            if frame:
                await self._socket.send(frame)

    def offer_frame(self, frame: str) -> None:
        self._frame = frame
        self._news.set()

    def offer_fact(self, fact: dict) -> bool:
        """False when it is full. A fact that waits already is not told twice."""
        text = msgspec.json.encode(fact).decode()
        return text in self._waiting or self._offer(text)

    def offer_output(self, lease_id: int, tail: Tail) -> bool:
        """Send what is new of the tail. An offset that is not above the last one tells the page to start over."""
        anew = tail.restarts != self._output_restarts
        pieces = [piece for piece in tail.pieces if anew or piece[0] > self._output_offset]
        if not pieces:
            return True
        self._output_restarts, self._output_offset = tail.restarts, pieces[-1][0]
        output = {"log": lease_id, "offset": pieces[0][0], "text": "".join(text for _, text in pieces)}
        return self._offer(msgspec.json.encode(output).decode())

    def forget_output(self) -> None:
        self._output_restarts = self._output_offset = -1

    def shut(self) -> None:
        self._waiting.clear()
        self._frame = ""

    def _offer(self, text: str) -> bool:
        if len(self._waiting) >= WAITING_MOST:
            return False
        self._waiting.append(text)
        self._news.set()
        return True
