"""The watch of a group's first node: it gathers the others, says when all may start, and hears from each of them."""

import asyncio
import contextlib
import errno
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agents.group_reasons import NO_ADDRESS, PEER_LOST, PORT_TAKEN, UNREACHABLE
from agents.groups.session import Session, Stage
from agents.groups.trouble import Trouble
from agents.groups.words import DONE, GO, OVER, PING, READY, Word, farewell, hear, say

_HELLO_SECONDS = 5.0

Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Peer:
    name: str
    heard_at: float
    writer: asyncio.StreamWriter | None = None
    ready: bool = False
    gone: bool = False


class Leader:
    def __init__(self, session: Session) -> None:
        self._session = session
        names = enumerate(node.name for node in session.group.nodes)
        self._peers = {rank: Peer(name, time.monotonic()) for rank, name in names if rank}
        self._news = asyncio.Event()

    async def watch(self) -> None:
        """Until the session closes. Holding the workload's own port until all are there shows that it is free here and
        that the others reach it."""
        group = self._session.group
        async with contextlib.AsyncExitStack() as held:
            gate = None
            if self._session.checking:
                gate = await self._listen(held, None, group.master_port, _until_they_leave)
            if self._peers and not await self._listen(held, group.master.address, group.watch_port, self._meet):
                return
            if gate is not None:
                await self._gather()
                gate.close()
                self._begin()
            await self._mind()
            await self._part()

    async def _listen(
        self, held: contextlib.AsyncExitStack, address: str | None, port: int, meet: Meet
    ) -> asyncio.Server | None:
        group = self._session.group
        try:
            server = await asyncio.start_server(meet, address, port)
            held.callback(server.close)
            return server
        except OSError as error:
            reason = NO_ADDRESS if error.errno == errno.EADDRNOTAVAIL else PORT_TAKEN
            about = group.master.address if reason == NO_ADDRESS else str(port)
            self._session.fail(Trouble(reason, f"{group.own.name}: {about}"))
            return None

    async def _gather(self) -> None:
        give_up_at = time.monotonic() + self._session.limits.check_seconds
        while self._session.open and (missing := self._missing()):
            left = give_up_at - time.monotonic()
            if left <= 0:
                self._session.fail(Trouble(UNREACHABLE, ", ".join(missing)))
                return
            self._tell_all(Word(PING))
            await self._pause(min(left, self._session.limits.beat_seconds))

    def _missing(self) -> list[str]:
        return [peer.name for peer in self._peers.values() if not peer.ready]

    def _begin(self) -> None:
        if self._session.open:
            self._session.go()
            self._tell_all(Word(GO))

    async def _mind(self) -> None:
        now = time.monotonic()
        for peer in self._peers.values():
            peer.heard_at = now
        limits = self._session.limits
        while self._session.open:
            self._tell_all(Word(PING))
            oldest = time.monotonic() - limits.silence_seconds
            lost = [peer.name for peer in self._peers.values() if not peer.gone and peer.heard_at < oldest]
            if lost:
                self._session.fail(Trouble(PEER_LOST, ", ".join(lost)))
            await self._session.pause(limits.beat_seconds)

    async def _part(self) -> None:
        """Those that are connected are told at once; one that is not may come back for a while and is told then."""
        give_up_at = time.monotonic() + self._session.limits.silence_seconds
        assert self._session.last_word is not None
        for peer in self._peers.values():
            if peer.writer is not None:
                self._dismiss(peer, peer.writer, self._session.last_word)
        while (left := give_up_at - time.monotonic()) > 0 and not all(peer.gone for peer in self._peers.values()):
            await self._pause(left)

    def _dismiss(self, peer: Peer, writer: asyncio.StreamWriter, word: Word) -> None:
        say(writer, word)
        writer.close()
        peer.gone = True
        self._news.set()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. A stranger is not answered; a node that comes back takes the place of its old connection."""
        group = self._session.group
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                hello = await hear(reader)
        except TimeoutError:
            hello = None
        if hello is None or not hello.is_hello_of(group.secret, group.epoch) or hello.node_rank not in self._peers:
            writer.close()
            return
        peer = self._peers[hello.node_rank]
        if peer.writer is not None:
            peer.writer.close()
        peer.writer, peer.heard_at = writer, time.monotonic()
        try:
            self._welcome(peer, writer, hello)
            await self._listen_to(peer, reader)
        finally:
            if peer.writer is writer:
                peer.writer, peer.ready = None, False
                self._news.set()
            writer.close()

    def _welcome(self, peer: Peer, writer: asyncio.StreamWriter, hello: Word) -> None:
        if self._session.last_word is not None:
            self._dismiss(peer, writer, self._session.last_word)
        elif self._session.checking and hello.running:  # it runs on from before this node was restarted
            self._dismiss(peer, writer, farewell(Trouble(PEER_LOST, self._session.group.own.name)))
        else:
            say(writer, Word(GO if self._session.stage is Stage.RUNNING else PING))

    async def _listen_to(self, peer: Peer, reader: asyncio.StreamReader) -> None:
        while not peer.gone and (word := await hear(reader)) is not None:
            peer.heard_at = time.monotonic()
            if word.kind == READY:
                peer.ready = True
            elif word.kind in (DONE, OVER):
                peer.gone = True
                if word.kind == OVER:
                    self._session.fail(word.trouble)
            self._news.set()

    def _tell_all(self, word: Word) -> None:
        for peer in self._peers.values():
            if peer.writer is not None:
                say(peer.writer, word)

    async def _pause(self, seconds: float) -> None:
        """That long, or until something is heard of a peer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()


async def _until_they_leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Who closes first keeps the port busy for a minute; that must not be this end, where the workload will listen."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_HELLO_SECONDS):
            await reader.read()
    writer.close()
