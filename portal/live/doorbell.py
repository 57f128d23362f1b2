"""The one ear of a process at the channel layer.

What is announced is in the database already, so an unreachable Redis is said now and then and waited out.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from portal.live.complaints import Complaints

log = logging.getLogger(__name__)

RENEW_SECONDS = 10.0
RETRY_SECONDS = 2.0
UNREACHABLE = (RedisError, OSError, ChannelFull)


class Doorbell:
    """Hands each message of the groups it listens to to ``hear``. Joins again and again: Redis may forget."""

    def __init__(self, hear: Callable[[dict], None]) -> None:
        self._hear = hear
        self._layer = get_channel_layer()
        self._channel = ""
        self._groups: dict[str, float] = {}  # when it was last joined, on the monotonic clock; 0 is never
        self._news = asyncio.Event()
        self._complaints = Complaints(log)

    def listen(self, group: str) -> None:
        self._groups[group] = 0.0
        self._news.set()

    def leave(self, group: str) -> None:
        """The layer forgets the membership when it expires; until then a message finds nobody here."""
        self._groups.pop(group, None)

    async def ring(self, group: str, message: dict) -> None:
        """Tell the sockets of other processes; lost when Redis is away."""
        try:
            await self._layer.group_send(group, {**message, "to": group})
        except UNREACHABLE as error:
            self._complaints.say("a message to other processes is lost", error)

    async def receive(self) -> None:
        """Run beside ``join``, each as a task of its own."""
        while True:
            try:
                message = await self._layer.receive(await self._own_channel())
            except UNREACHABLE as error:
                self._complaints.say("the channel layer cannot be heard", error)
                self._groups = dict.fromkeys(self._groups, 0.0)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._hear(message)

    async def join(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._join_due(await self._own_channel())
            except UNREACHABLE as error:
                self._complaints.say("the channel layer cannot be joined", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _own_channel(self) -> str:
        if not self._channel:
            self._channel = await self._layer.new_channel()
        return self._channel

    async def _join_due(self, channel: str) -> None:
        for group, joined in list(self._groups.items()):
            now = time.monotonic()
            if joined == 0.0 or now - joined >= RENEW_SECONDS:
                await self._layer.group_add(group, channel)
                if group in self._groups:
                    self._groups[group] = now
