"""What a process does every second for all the agents it holds: one query or one write, whatever their number."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError

from portal.live.buckets import write_rows
from portal.live.complaints import Complaints
from portal.live.database import in_database
from portal.live.node_rows import record_heard, standings_of

if TYPE_CHECKING:
    from portal.live.hub import Hub

log = logging.getLogger(__name__)

ROUND_SECONDS = 1.0
LOOK_SECONDS = 5.0
HEARD_SECONDS = 10.0  # less where a node counts as silent sooner
ASK_SECONDS = 20.0  # an agent forgets after 60 s whose output is read


class AgentRounds:
    """The level-triggered half of the agents' sockets: works with Redis away, for it looks into the database."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._complaints = Complaints(log)
        self._heard_seconds = min(HEARD_SECONDS, settings.NODE_SILENT_AFTER.total_seconds() / 4)
        self._look = asyncio.Event()
        self._looked = self._wrote_heard = 0.0
        self._asked: dict[int, tuple[set[int], float]] = {}

    def look_now(self) -> None:
        """Some node's right to be connected may have changed."""
        self._look.set()

    async def run(self) -> None:
        while True:
            await self._once(time.monotonic())
            try:
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._look.wait()
            except TimeoutError:
                continue
            self._look.clear()
            self._looked = 0.0

    async def finish(self) -> None:
        """Write what is left when the last socket goes."""
        await self._write(self._hub.buckets.take_all())
        await self._write_heard()

    async def _once(self, now: float) -> None:
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            await self._look_at_standings()
        if now - self._wrote_heard >= self._heard_seconds:
            self._wrote_heard = now
            await self._write_heard()
        await self._write(self._hub.buckets.take_finished(time.time()))
        await self._ask_for_outputs(now)

    async def _look_at_standings(self) -> None:
        agents = dict(self._hub.agents)
        if not agents:
            return
        try:
            standings = await in_database(standings_of)(list(agents))
        except DatabaseError as error:
            self._complaints.say("the standing of nodes cannot be read", error)
            return
        for node_id, connection in agents.items():
            standing = standings.get(node_id)
            if standing is None or standing.credential_hash != connection.credential_hash:
                connection.dismiss("revoked")
            elif connection.pushed_generation is not None and standing.generation > connection.pushed_generation:
                connection.wake()

    async def _write_heard(self) -> None:
        heard = dict(self._hub.heard)
        self._hub.heard.clear()
        if not heard:
            return
        try:
            await in_database(record_heard)(heard)
        except DatabaseError as error:
            self._complaints.say("when nodes were heard cannot be written", error)

    async def _write(self, rows: list) -> None:
        if not rows:
            return
        try:
            await in_database(write_rows)(rows)
        except DatabaseError as error:
            self._complaints.say(f"{len(rows)} means are lost", error)

    async def _ask_for_outputs(self, now: float) -> None:
        """Tell each agent whose output is read here, when that changed and now and then."""
        agents = dict(self._hub.agents)
        if not agents:
            return
        watched = await self._hub.store.watched_outputs()
        self._asked = {node_id: asked for node_id, asked in self._asked.items() if node_id in agents}
        for node_id, connection in agents.items():
            wanted = watched.get(node_id, set())
            before, at = self._asked.get(node_id, (set(), 0.0))
            if wanted != before or (wanted and now - at > ASK_SECONDS):
                self._asked[node_id] = (wanted, now)
                connection.ask_for_output(wanted)
