"""The watch of every other node of a group: it reports to the first one, and hears from it."""

import asyncio
import contextlib
import time

from agents.group_reasons import PEER_LOST, UNREACHABLE
from agents.groups.session import Session
from agents.groups.trouble import Trouble
from agents.groups.words import DONE, GO, HELLO, OVER, PING, READY, Word, hear, say

_AGAIN_SECONDS = 0.5


class Follower:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = self._heard_at = time.monotonic()
        self._why = ""
        self._first_is_done = False
        self._told = False

    async def watch(self) -> None:
        """Until the session closes. A connection that breaks is made again, within the limit of silence."""
        session = self._session
        while session.open and not self._first_is_done:
            await self._visit()
            self._judge()
            if not self._first_is_done:
                await session.pause(min(_AGAIN_SECONDS, session.limits.beat_seconds))
        await session.closing.wait()
        give_up_at = time.monotonic() + session.limits.silence_seconds
        while not self._told and not self._first_is_done and time.monotonic() < give_up_at:
            await self._visit()
            if not self._told:
                await asyncio.sleep(_AGAIN_SECONDS)

    def _left(self) -> float:
        """Seconds until the limit that binds now."""
        limits = self._session.limits
        if self._session.checking:
            return self._began + limits.check_seconds - time.monotonic()
        return self._heard_at + limits.silence_seconds - time.monotonic()

    def _judge(self) -> None:
        if self._left() > 0 or self._first_is_done:
            return
        first = self._session.group.master
        if self._session.checking:
            self._session.fail(Trouble(UNREACHABLE, f"{first.name}: {self._why}"))
        else:
            self._session.fail(Trouble(PEER_LOST, first.name))

    async def _visit(self) -> None:
        group = self._session.group
        self._why = f"{group.master.address} {group.watch_port}"
        try:
            async with asyncio.timeout(self._session.limits.beat_seconds):
                reader, writer = await asyncio.open_connection(group.master.address, group.watch_port)
        except (OSError, TimeoutError):
            return
        beating = asyncio.create_task(self._beat(writer))
        try:
            say(writer, Word(HELLO, secret=group.secret, epoch=group.epoch, node_rank=group.node_rank,
                             running=self._session.ran))
            await self._converse(reader, writer)
        finally:
            beating.cancel()
            await self._hang_up(writer)

    async def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        """Our last word is let out; nothing else is worth waiting for."""
        if not self._told:
            writer.transport.abort()
            return
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_AGAIN_SECONDS):
                await writer.wait_closed()

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            await asyncio.sleep(self._session.limits.beat_seconds)
            say(writer, Word(PING))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self._session.open and (word := await self._next(reader)) is not None:
            self._heard_at = time.monotonic()
            if word.kind in (DONE, OVER):
                self._first_is_done = True
                if word.kind == OVER:
                    self._session.fail(word.trouble)
                return
            if word.kind == GO:
                self._session.go()
            elif self._session.checking and not await self._is_ready(writer):
                return
        if self._session.last_word is not None:
            say(writer, self._session.last_word)
            self._told = True

    async def _next(self, reader: asyncio.StreamReader) -> Word | None:
        """None when nothing comes in time, the connection ends or this session closes."""
        hearing = asyncio.ensure_future(hear(reader))
        closing = asyncio.ensure_future(self._session.closing.wait())
        try:
            await asyncio.wait({hearing, closing}, timeout=max(0.0, self._left()),
                               return_when=asyncio.FIRST_COMPLETED)
            return hearing.result() if hearing.done() else None
        finally:
            for waiting in (hearing, closing):
                waiting.cancel()

    async def _is_ready(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the workload here would reach the first rank: that node holds the port open until all are ready."""
        group = self._session.group
        try:
            async with asyncio.timeout(self._session.limits.beat_seconds):
                _, probe = await asyncio.open_connection(group.master.address, group.master_port)
        except (OSError, TimeoutError):
            self._why = f"{group.master.address} {group.master_port}"
            return False
        probe.close()
        say(writer, Word(READY))
        return True
