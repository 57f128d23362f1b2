"""What the sockets of one process share: who is connected, the doorbell, the store, the rounds."""

import asyncio
import logging
from typing import Protocol
from weakref import WeakKeyDictionary

from portal.events import BROWSERS, node_group
from portal.live.agent_rounds import AgentRounds
from portal.live.buckets import Buckets
from portal.live.doorbell import Doorbell
from portal.live.node_rows import Heard
from portal.live.store import Store
from portal.live.ticker import Ticker, Viewer

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0
END_SECONDS = 0.5


class AgentConnection(Protocol):
    """What the process asks of the socket of an agent."""

    node_id: int
    connection_id: str
    credential_hash: str
    pushed_generation: int | None

    def wake(self) -> None: ...
    def dismiss(self, why: str) -> None: ...
    def ask_for_output(self, lease_ids: set[int]) -> None: ...


class Hub:
    """Runs its rounds while it has sockets; the last one that leaves ends them."""

    def __init__(self) -> None:
        self.agents: dict[int, AgentConnection] = {}
        self.viewers: set[Viewer] = set()
        self.heard: dict[int, Heard] = {}
        self.buckets = Buckets()
        self.store = Store()
        self.doorbell = Doorbell(self._hear)
        self.ticker = Ticker(self.viewers, self.store)
        self._rounds = AgentRounds(self)
        self._tasks: list[asyncio.Task] = []

    async def join_agent(self, connection: AgentConnection) -> None:
        """The newest connection of a node replaces the one before, here and in other processes."""
        before = self.agents.get(connection.node_id)
        self.agents[connection.node_id] = connection
        if before is not None:
            before.dismiss("replaced")
        self._start()
        self.doorbell.listen(node_group(connection.node_id))
        await self.doorbell.ring(
            node_group(connection.node_id),
            {"type": "node.connected", "node": connection.node_id, "connection": connection.connection_id},
        )

    async def leave_agent(self, connection: AgentConnection) -> None:
        if self.agents.get(connection.node_id) is connection:
            del self.agents[connection.node_id]
            self.doorbell.leave(node_group(connection.node_id))
        await self._stop_when_empty()

    def join_viewer(self, viewer: Viewer) -> None:
        self.viewers.add(viewer)
        self._start()
        if len(self.viewers) == 1:
            self.doorbell.listen(BROWSERS)

    async def leave_viewer(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)
        if not self.viewers:
            self.doorbell.leave(BROWSERS)
        await self._stop_when_empty()

    def _hear(self, message: dict) -> None:
        """Sort what came through the channel layer; never raises, whatever came."""
        to = str(message.get("to", ""))
        if not to.startswith("node."):
            for viewer in list(self.viewers):
                viewer.hear(to, message)
            return
        connection = self.agents.get(int(to.removeprefix("node.")))
        if connection is None:
            return
        kind = message.get("type")
        if kind == "desired.changed":
            connection.wake()
        elif kind == "node.revoked":
            self._rounds.look_now()
        elif kind == "node.connected" and message.get("connection") != connection.connection_id:
            connection.dismiss("replaced")

    def _start(self) -> None:
        if not self._tasks:
            runs = (self.doorbell.receive, self.doorbell.join, self.ticker.run, self._rounds.run)
            self._tasks = [asyncio.create_task(_keep_up(run)) for run in runs]

    async def _stop_when_empty(self) -> None:
        if self.agents or self.viewers or not self._tasks:
            return
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*map(_end, tasks))
        await self._rounds.finish()


async def _keep_up(run) -> None:
    """A round that fails is logged and starts anew: one bad moment must not end live values until a restart."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("%s failed and starts again", run.__qualname__)
            await asyncio.sleep(RESTART_SECONDS)


async def _end(task: asyncio.Task) -> None:
    """A cancellation can get lost in a wait_for of a library that has its answer at that very moment: ask again."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=END_SECONDS)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop; a web process has one."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
