"""The portal's end of the wire for tests: a real websocket server that speaks the protocol and remembers everything."""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from agents.protocol import (
    Acknowledged,
    Desired,
    DesiredLease,
    FromAgent,
    FromPortal,
    Hello,
    LeaseEvent,
    Report,
    Welcome,
    decode_from_agent,
    encode,
)


class FakePortal:
    """Runs in a thread of its own. ``acknowledge`` off keeps events untold; ``clock_ahead`` skews its clock."""

    def __init__(self, clock_ahead: float = 0.0, host: str = "127.0.0.1") -> None:
        self.host = host
        self.acknowledge = True
        self.clock_ahead = clock_ahead
        self.frames: list[FromAgent] = []
        self.headers: list[str] = []
        self.connections = 0
        self.port = 0
        self._generations = itertools.count(1)
        self._desired = Desired(generation=0, leases=())
        self._socket: ServerConnection | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def up(self) -> None:
        self._do(self._open())

    def down(self) -> None:
        self._do(self._close())

    def want(self, *leases: DesiredLease, generation: int | None = None) -> int:
        """Make these the whole desired document and push it."""
        number = next(self._generations) if generation is None else generation
        self._desired = Desired(generation=number, leases=leases)
        self.push(self._desired)
        return number

    def push(self, message: FromPortal | str) -> None:
        frame = message if isinstance(message, str) else encode(message)
        socket = self._socket
        if socket is not None:
            with contextlib.suppress(ConnectionClosed):
                self._do(socket.send(frame))

    def of(self, kind: type) -> list:
        return [frame for frame in list(self.frames) if isinstance(frame, kind)]

    def events(self, lease_id: int | None = None) -> list[LeaseEvent]:
        """Distinct events in the order they came first."""
        seen: dict[str, LeaseEvent] = {}
        for report in self.of(Report):
            for event in report.events:
                if lease_id in (None, event.lease_id):
                    seen.setdefault(event.id, event)
        return list(seen.values())

    def event(self, lease_id: int, kind: str, within: float = 10.0) -> LeaseEvent:
        """The event, waited for."""
        return wait_for(lambda: next((e for e in self.events(lease_id) if e.kind == kind), None), within,
                        lambda: f"no {kind} of lease {lease_id}; there are {self.events()}")

    def stop(self) -> None:
        socket = self._socket
        if socket is not None:  # its other end may be out of reach by now
            self._loop.call_soon_threadsafe(socket.transport.abort)
        with contextlib.suppress(Exception):
            self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _do(self, work) -> object:
        future: Future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(10)

    async def _open(self) -> None:
        self._server = await serve(self._serve, self.host, self.port, max_size=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        self.headers.append(socket.request.headers.get("Authorization", ""))
        try:
            await self._converse(socket)
        except ConnectionClosed:
            return
        finally:
            if self._socket is socket:
                self._socket = None

    async def _converse(self, socket: ServerConnection) -> None:
        async for frame in socket:
            message = decode_from_agent(frame)
            self.frames.append(message)
            if isinstance(message, Hello):
                await socket.send(encode(Welcome(version=1, node_id=1, now=time.time() + self.clock_ahead)))
                await socket.send(encode(self._desired))
                self._socket = socket
            elif isinstance(message, Report) and self.acknowledge and message.events:
                await socket.send(encode(Acknowledged(tuple(event.id for event in message.events))))


def wait_for(look: Callable[[], object], within: float, complain: Callable[[], str] = lambda: "in vain"):
    """Look until something is there; fail with words when it takes too long."""
    give_up_at = time.monotonic() + within
    while time.monotonic() < give_up_at:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {within} s: {complain()}")
