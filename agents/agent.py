"""The running agent: a connection, a reconcile thread, a telemetry thread, and a heartbeat that waits for neither."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agents.clock import Clock
from agents.cluster import Cluster
from agents.containers.contract import Engine
from agents.drivers.contract import DriverError, GpuDriver
from agents.enrolment import Identity
from agents.groups.session import Limits
from agents.groups.watch import Groups
from agents.journal import Journal
from agents.link import Link
from agents.logs import LogWatch
from agents.patience import PatientDriver
from agents.protocol import VERSION, Acknowledged, Desired, FromPortal, Heartbeat, Hello, WatchLogs, Welcome
from agents.reconcile import Reconciler
from agents.reports import reports
from agents.starting import DeviceSpec
from agents.telemetry import Telemetry
from agents.version import agent_version

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10.0
SAMPLE_SECONDS = 1.0
RETELL_SECONDS = 5.0
STOP_SECONDS = 60.0
_PROBE_BACKOFF_SECONDS = 5.0
_LAST_PASS_SECONDS = 5.0
_LAST_WORD_SECONDS = 3.0


@dataclass(frozen=True)
class Parts:
    """What an agent is made of, so that a test can give it others."""

    driver: GpuDriver
    engine: Engine
    spec: DeviceSpec
    journal: Journal
    boot_id: Callable[[], str]
    simulated: bool = False
    driver_seconds: float = 30.0
    tell_all_seconds: float = 60.0
    cluster: Callable[[], Cluster] = Cluster
    limits: Limits = Limits()


class Agent:
    def __init__(self, identity: Identity, parts: Parts) -> None:
        self._parts = parts
        self._driver = PatientDriver(parts.driver, parts.driver_seconds)
        self._gauge = PatientDriver(parts.driver, parts.driver_seconds)
        self._clock = Clock(parts.journal.state.clock_offset_seconds)
        self._link = Link(identity.socket_url(), identity.credential, self._hello, self._take)
        self._telemetry = Telemetry(self._gauge, parts.engine)
        self._logs = LogWatch(parts.engine)
        self._doorbell = asyncio.Event()
        self._news = asyncio.Event()
        self._fresh = True
        self._last_told: tuple[object, ...] = ()
        self._told_at = 0.0
        self._boot_id = ""
        self._driver_version = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._groups = Groups(parts.cluster, parts.limits, self._ring)
        self._reconciler = Reconciler(
            journal=parts.journal, driver=self._driver, engine=parts.engine, spec=parts.spec, clock=self._clock,
            boot_id=parts.boot_id, told=self._tell, groups=self._groups)
        self._reconcile_thread = ThreadPoolExecutor(1, thread_name_prefix="reconcile")
        self._telemetry_thread = ThreadPoolExecutor(1, thread_name_prefix="telemetry")

    async def run(self, stop: asyncio.Event, stop_workloads: bool) -> None:
        """Serve until ``stop`` is set. The workloads stay for the next agent to adopt, or end with this one."""
        self._loop = asyncio.get_running_loop()
        loops = (self._reconcile, self._keep_link, self._report, self._sample, self._beat)
        tasks = [asyncio.create_task(each(), name=each.__name__) for each in loops]
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            if stopping not in done:
                done.pop().result()
            if stop_workloads:
                await self._end_workloads()
        finally:
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            self._telemetry_thread.shutdown(wait=False, cancel_futures=True)
            last_pass = self._loop.run_in_executor(None, self._reconcile_thread.shutdown)
            await asyncio.wait({last_pass}, timeout=_LAST_PASS_SECONDS)
            self._groups.close()
            self._gauge.close()

    async def _end_workloads(self) -> None:
        log.info("ending the workloads before the agent stops")
        self._reconciler.withdraw_all()
        give_up_at = time.monotonic() + STOP_SECONDS
        while not self._reconciler.idle() and time.monotonic() < give_up_at:
            self._doorbell.set()
            await asyncio.sleep(0.1)
        await self._tell_the_last()

    async def _tell_the_last(self) -> None:
        """The portal hears at once what has ended, if it can be reached; else it is in the journal."""
        give_up_at = time.monotonic() + _LAST_WORD_SECONDS
        while self._reconciler.events and time.monotonic() < give_up_at:
            await self._send_reports()
            await asyncio.sleep(0.05)

    def _take(self, message: FromPortal) -> None:
        if isinstance(message, Welcome):
            self._clock.agree(message.now)
            self._fresh = True
            self._last_told = ()
            self._news.set()
        elif isinstance(message, Desired):
            self._reconciler.deliver(message, self._fresh)
            self._fresh = False
        elif isinstance(message, Acknowledged):
            self._reconciler.acknowledge(message)
        elif isinstance(message, WatchLogs):
            self._logs.watch(message.lease_ids)
        self._doorbell.set()

    def _ring(self) -> None:
        """From the thread of the groups: a pass is due."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._doorbell.set)

    def _tell(self) -> None:
        """From the reconcile thread: something may be new."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    async def _hello(self) -> Hello:
        """Waits until the driver has answered once: a node without GPUs would say something false."""
        while not self._reconciler.gpus:
            await asyncio.sleep(0.05)
        reconciler = self._reconciler
        cluster = await asyncio.get_running_loop().run_in_executor(None, self._parts.cluster)
        return Hello(
            version=VERSION, agent_version=agent_version(), boot_id=self._boot_id, driver_version=self._driver_version,
            engine=self._parts.engine.name, sent_at=time.time(), gpus=reconciler.gpus, present=reconciler.present,
            observed_generation=reconciler.generation, simulated=self._parts.simulated,
            cluster_address=cluster.address, cluster_interface=cluster.interface)

    async def _keep_link(self) -> None:
        await self._link.run()

    async def _reconcile(self) -> None:
        loop = asyncio.get_running_loop()
        await self._first_probe()
        while True:
            self._doorbell.clear()
            wait = await loop.run_in_executor(self._reconcile_thread, self._reconciler.run_pass)
            await self._note_boot()
            try:
                async with asyncio.timeout(wait):
                    await self._doorbell.wait()
            except TimeoutError:
                continue

    async def _first_probe(self) -> None:
        """Until the driver answers; a node is never given up for a driver that is not there yet."""
        loop = asyncio.get_running_loop()
        wait = 0.5
        while True:
            try:
                self._driver_version = await loop.run_in_executor(self._reconcile_thread, self._driver.versions)
                self._boot_id = self._parts.boot_id()
                return
            except DriverError as refusal:
                log.warning("the driver does not answer: %s; next try in %.1f s", refusal, wait)
            await asyncio.sleep(wait)
            wait = min(_PROBE_BACKOFF_SECONDS, wait * 2)

    async def _note_boot(self) -> None:
        """A node that was rebooted says hello again."""
        boot_id = self._parts.boot_id()
        if boot_id != self._boot_id:
            self._boot_id = boot_id
            await self._link.drop()

    async def _report(self) -> None:
        """Tell news at once, and again what was not acknowledged. All that is there is told once a minute besides: some
        things the portal decides by what is absent, and that is no news."""
        while True:
            try:
                async with asyncio.timeout(min(RETELL_SECONDS, self._parts.tell_all_seconds)):
                    await self._news.wait()
            except TimeoutError:
                told_lately = time.monotonic() - self._told_at < self._parts.tell_all_seconds
                if told_lately and not self._reconciler.events:
                    continue
                self._last_told = ()
            self._news.clear()
            await self._send_reports()

    async def _send_reports(self) -> None:
        """Send what there is, unless exactly that was sent already."""
        known = self._reconciler
        facts = (known.generation, known.present, known.events, known.gpus)
        if facts == self._last_told:
            return
        for report in reports(*facts):
            if not await self._link.send(report):
                return
        self._last_told, self._told_at = facts, time.monotonic()

    async def _beat(self) -> None:
        while True:
            await self._link.send(Heartbeat(
                sent_at=time.time(), observed_generation=self._reconciler.generation,
                probe_age_seconds=self._driver.probe_age_seconds()))
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _sample(self) -> None:
        """Once a second, also to see early that a workload has ended; a slow driver makes it slower, nothing else."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + SAMPLE_SECONDS, loop.time() - SAMPLE_SECONDS)
            await asyncio.sleep(max(0.0, due - loop.time()))
            samples = await loop.run_in_executor(
                self._telemetry_thread, self._telemetry.measure, self._reconciler.active, self._clock.now())
            if self._telemetry.ended:
                self._doorbell.set()
            if self._link.up:
                await self._link.send(samples)
                for chunk in await loop.run_in_executor(self._telemetry_thread, self._logs.read_new):
                    await self._link.send(chunk)
