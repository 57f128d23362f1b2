"""What becomes of an agent's frames. A node speaks of its own GPUs and leases; the rest is left out and said once."""

import datetime as dt
import logging
import time

from agents import protocol
from portal.inventory.models import Node
from portal.inventory.reported import record_gpus
from portal.live.database import in_database
from portal.live.hub import Hub
from portal.live.node_rows import Belongings, Heard, belongings_of
from portal.live.rates import Allowance
from portal.live.socket import Socket
from portal.live.store import Snapshot
from portal.reservations.agent_reports import apply_report

log = logging.getLogger(__name__)

LEARN_AGAIN_SECONDS = 5.0
SAMPLES_PER_SECOND, SAMPLES_AT_ONCE = 2, 10


class AgentFrames:
    """Takes the frames of one connection in, one after another."""

    def __init__(self, shared: Hub, node_id: int, socket: Socket, hello: protocol.Hello) -> None:
        self._hub = shared
        self._node_id = node_id
        self._socket = socket
        self._facts = hello.gpus
        self._own = Belongings()
        self._learned = 0.0
        self._strangers_told = False
        self._samples = Allowance(SAMPLES_PER_SECOND, SAMPLES_AT_ONCE)

    async def take(self, message: protocol.FromAgent) -> None:
        """Raises DatabaseError, or ValueError for content that cannot be stored; then nothing was acknowledged."""
        now = dt.datetime.now(dt.UTC)
        self._hear(message, now)
        if isinstance(message, protocol.Report):
            await self._take_report(message, now)
        elif isinstance(message, protocol.Samples):
            await self._take_samples(message, now.timestamp())
        elif isinstance(message, protocol.LogChunk):
            await self._take_output(message)

    async def learn_belongings(self) -> None:
        self._own = await in_database(belongings_of)(self._node_id)
        self._learned = time.monotonic()

    def _hear(self, message: protocol.FromAgent, now: dt.datetime) -> None:
        before = self._hub.heard.get(self._node_id)
        age = before.probe_age_seconds if before else None
        if isinstance(message, protocol.Heartbeat):
            age = message.probe_age_seconds
        self._hub.heard[self._node_id] = Heard(now, age)

    async def _take_report(self, report: protocol.Report, now: dt.datetime) -> None:
        if report.gpus and report.gpus != self._facts:
            await in_database(_record_gpus)(self._node_id, report.gpus)
            self._facts = report.gpus
            await self.learn_belongings()
        taken = await in_database(apply_report)(self._node_id, report, now)
        await self._socket.send(protocol.encode(protocol.Acknowledged(event_ids=tuple(taken))))

    async def _take_samples(self, samples: protocol.Samples, at: float) -> None:
        if not self._samples.take():
            return
        strange = [each.lease_id for each in samples.leases if each.lease_id not in self._own.leases]
        strange_gpus = [each.uuid for each in samples.gpus if each.uuid not in self._own.gpus]
        if strange or strange_gpus:
            await self._look_again(strange, strange_gpus)
        leases = {each.lease_id: each for each in samples.leases if each.lease_id in self._own.leases}
        gpus = {self._own.gpus[each.uuid]: each for each in samples.gpus if each.uuid in self._own.gpus}
        await self._hub.store.put_snapshot(self._node_id, Snapshot(at, leases, gpus))
        for lease_sample in leases.values():
            self._hub.buckets.add(lease_sample, at)

    async def _take_output(self, chunk: protocol.LogChunk) -> None:
        if chunk.lease_id not in self._own.leases:
            await self._look_again([chunk.lease_id], [])
        if chunk.lease_id in self._own.leases:
            await self._hub.store.append_output(chunk)

    async def _look_again(self, leases: list[int], gpus: list[str]) -> None:
        """What is strange may be new: read again now and then, and say once what stays strange."""
        if time.monotonic() - self._learned >= LEARN_AGAIN_SECONDS:
            await self.learn_belongings()
        strangers = [*(set(leases) - self._own.leases), *(set(gpus) - set(self._own.gpus))]
        if strangers and not self._strangers_told:
            self._strangers_told = True
            log.warning("node %s speaks of what is not its own: %s", self._node_id, strangers[:5])


def _record_gpus(node_id: int, facts: tuple[protocol.GpuFact, ...]) -> None:
    record_gpus(Node.objects.get(pk=node_id), facts)
