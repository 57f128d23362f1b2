"""Once a second: one read of the store for all browsers of this process, one frame for each different view."""

import asyncio
import time
from typing import Protocol

from portal.live.frames import frame_of
from portal.live.store import Store, Tail
from portal.live.watches import Sight

TICK_SECONDS = 1.0
WATCH_AGAIN_SECONDS = 15.0


class Viewer(Protocol):
    """What the process asks of the socket of a browser."""

    sight: Sight

    def hear(self, to: str, message: dict) -> None: ...
    def offer_frame(self, frame: str) -> None: ...
    def offer_output(self, lease_id: int, tail: Tail) -> None: ...


class Ticker:
    def __init__(self, viewers: set[Viewer], store: Store) -> None:
        self._viewers = viewers
        self._store = store
        self._watched_at = 0.0

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            await self.tick(list(self._viewers))
            await self._outputs(list(self._viewers))
            await asyncio.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - began)))

    async def tick(self, viewers: list[Viewer]) -> None:
        """Give each viewer its frame; those that look at the same share one text."""
        node_ids = set().union(*(viewer.sight.node_ids for viewer in viewers))
        snapshots = await self._store.snapshots(sorted(node_ids))
        now = time.time()
        frames: dict[Sight, str] = {}
        for viewer in viewers:
            sight = viewer.sight
            if sight not in frames:
                frames[sight] = frame_of(sight, snapshots, now)
            viewer.offer_frame(frames[sight])

    async def _outputs(self, viewers: list[Viewer]) -> None:
        places = {viewer: viewer.sight.output for viewer in viewers if viewer.sight.output}
        if not places:
            return
        if time.monotonic() - self._watched_at > WATCH_AGAIN_SECONDS:
            self._watched_at = time.monotonic()
            await self._store.watch_output({(node_id, lease_id) for lease_id, node_id in places.values()})
        tails = await self._store.tails(sorted({lease_id for lease_id, _ in places.values()}))
        for viewer, (lease_id, _) in places.items():
            if lease_id in tails:
                viewer.offer_output(lease_id, tails[lease_id])
