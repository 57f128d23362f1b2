"""The newest samples, output tails and who watches them, in Redis. All of it may be lost at any time: it comes back."""

import logging
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from django.conf import settings
from redis import Redis
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from agents.protocol import LOG_TAIL_BYTES, GpuSample, LeaseSample, LogChunk
from portal.live.complaints import Complaints

log = logging.getLogger(__name__)

SNAPSHOT_SECONDS = 3600
TAIL_SECONDS = 3600
SOCKET_SECONDS = 90
WATCH_SECONDS = 45
# Once more at once: the first try may find a connection that a restarted Redis has closed.
_TRIES: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2, "retry": Retry(NoBackoff(), 1)}
_ASYNC_TRIES: dict[str, Any] = {**_TRIES, "retry": AsyncRetry(NoBackoff(), 1)}
_WATCHED = "berth:watched"
UNREACHABLE = (RedisError, OSError)


class Snapshot(msgspec.Struct, frozen=True):
    """What one node measured last. ``at`` is when the portal received it, seconds since the epoch."""

    at: float
    leases: dict[int, LeaseSample]
    gpus: dict[int, GpuSample]


class Tail(msgspec.Struct, frozen=True):
    """The end of a workload's output in pieces (offset, text). ``restarts`` rises when it begins anew."""

    pieces: tuple[tuple[int, str], ...] = ()
    restarts: int = 0

    def text(self) -> str:
        return "".join(text for _, text in self.pieces)


_snapshots = msgspec.msgpack.Decoder(Snapshot)
_tails = msgspec.msgpack.Decoder(Tail)


class Store:
    """What sockets keep in Redis. Writes that fail are lost and reads that fail find nothing; both are logged."""

    def __init__(self) -> None:
        self._redis = aioredis.Redis.from_url(settings.REDIS_STORE_URL, **_ASYNC_TRIES)
        self._complaints = Complaints(log)

    async def close(self) -> None:
        await self._redis.aclose()

    async def put_snapshot(self, node_id: int, snapshot: Snapshot) -> None:
        await self._try("set", _node_key(node_id), msgspec.msgpack.encode(snapshot), ex=SNAPSHOT_SECONDS)

    async def snapshots(self, node_ids: Iterable[int]) -> dict[int, Snapshot]:
        """One read, whatever the number of nodes; nodes of which nothing is known are left out."""
        wanted = list(node_ids)
        if not wanted:
            return {}
        found = await self._try("mget", [_node_key(node_id) for node_id in wanted]) or []
        return {node_id: _snapshots.decode(data) for node_id, data in zip(wanted, found, strict=False) if data}

    async def append_output(self, chunk: LogChunk) -> None:
        key = _tail_key(chunk.lease_id)
        data = await self._try("get", key)
        tail = extended(_tails.decode(data) if data else Tail(), chunk)
        await self._try("set", key, msgspec.msgpack.encode(tail), ex=TAIL_SECONDS)

    async def tails(self, lease_ids: Iterable[int]) -> dict[int, Tail]:
        wanted = list(lease_ids)
        if not wanted:
            return {}
        found = await self._try("mget", [_tail_key(lease_id) for lease_id in wanted]) or []
        return {lease_id: _tails.decode(data) for lease_id, data in zip(wanted, found, strict=False) if data}

    async def watch_output(self, places: Iterable[tuple[int, int]]) -> None:
        """Say for a while that somebody reads the output of these (node, lease)."""
        until = time.time() + WATCH_SECONDS
        members: dict[str | bytes, float] = {f"{node_id}:{lease_id}": until for node_id, lease_id in places}
        if members:
            await self._try("zadd", _WATCHED, members)

    async def watched_outputs(self) -> dict[int, set[int]]:
        """The watched leases of every node that has some."""
        watched: dict[int, set[int]] = {}
        now = time.time()
        for member in await self._try("zrangebyscore", _WATCHED, now, "+inf") or []:
            node_id, lease_id = member.split(b":")
            watched.setdefault(int(node_id), set()).add(int(lease_id))
        await self._try("zremrangebyscore", _WATCHED, "-inf", f"({now}")
        return watched

    async def hold_socket(self, user_id: int, socket_id: str) -> int:
        """Count this socket for a while; returns how many the person holds, in all processes."""
        key, now = f"berth:sockets:{user_id}", time.time()
        await self._try("zremrangebyscore", key, "-inf", now)
        await self._try("zadd", key, {socket_id: now + SOCKET_SECONDS})
        await self._try("expire", key, SOCKET_SECONDS)
        return int(await self._try("zcard", key) or 0)

    async def drop_socket(self, user_id: int, socket_id: str) -> None:
        await self._try("zrem", f"berth:sockets:{user_id}", socket_id)

    async def _try(self, command: str, *arguments, **options):
        try:
            return await getattr(self._redis, command)(*arguments, **options)
        except UNREACHABLE as error:
            self._complaints.say("the store of live values cannot be reached", error)
            return None


def extended(tail: Tail, chunk: LogChunk) -> Tail:
    """The tail with this piece. Offsets count bytes and text is cleaned, so a piece from before the end starts over."""
    pieces, restarts = tail.pieces, tail.restarts
    if pieces and chunk.offset <= pieces[-1][0]:
        pieces, restarts = (), restarts + 1
    pieces = (*pieces, (chunk.offset, chunk.text))
    while len(pieces) > 1 and sum(len(text.encode()) for _, text in pieces) > LOG_TAIL_BYTES:
        pieces = pieces[1:]
    return Tail(pieces, restarts)


def output_tail(lease_id: int, node_id: int) -> str:
    """What is known of a running workload's output, "" when nothing is. Asking makes its agent send it for a while."""
    until = time.time() + WATCH_SECONDS
    try:
        with Redis.from_url(settings.REDIS_STORE_URL, **_TRIES) as redis:
            redis.zadd(_WATCHED, {f"{node_id}:{lease_id}": until})
            data = redis.get(_tail_key(lease_id))
    except UNREACHABLE as error:
        log.warning("the output of lease %s cannot be read: %s", lease_id, error)
        return ""
    return _tails.decode(data).text() if data else ""


def _node_key(node_id: int) -> str:
    return f"berth:node:{node_id}"


def _tail_key(lease_id: int) -> str:
    return f"berth:output:{lease_id}"
