"""One pass: read what is present, stop and free first, then start, read again, report what is there."""

import logging
from collections import deque
from collections.abc import Callable

from agents.clock import Clock
from agents.complaints import Complaints
from agents.containers.contract import Engine, EngineError
from agents.drivers.contract import DriverError, GpuDriver
from agents.fencing import Fences
from agents.freeing import Freer
from agents.gpus import GpuWatch
from agents.groups.care import GroupCare, exit_code_of
from agents.groups.sharing import over_nodes
from agents.groups.watch import Groups
from agents.journal import Journal, Progress
from agents.launching import Launcher
from agents.leases import EXITED, GPU_LOST, WINDOW_OVER, WITHDRAWN, LeaseBook
from agents.orphans import OrphanCare
from agents.present import Present, is_exactly
from agents.protocol import Acknowledged, Desired, DesiredLease, GpuFact, LeaseEvent, PresentSlice
from agents.schedule import (
    ACTIVE_POLL_SECONDS,
    STOPPING_POLL_SECONDS,
    Phase,
    Step,
    due_at_first,
    due_at_next,
    next_step,
)
from agents.starting import DeviceSpec, Starter

log = logging.getLogger(__name__)

_CLOCK_STEP_SECONDS = 0.5
_HINDERED_SECONDS = 2.0


class Reconciler:
    """Owned by one thread: only ``deliver``, ``acknowledge`` and the plain attributes are for others.

    ``told`` is called after each pass and each lease that was started, so that news leave at once.
    """

    def __init__(
        self, *, journal: Journal, driver: GpuDriver, engine: Engine, spec: DeviceSpec, clock: Clock,
        boot_id: Callable[[], str], told: Callable[[], None], groups: Groups | None = None,
    ) -> None:
        self._journal = journal
        self._engine = engine
        self._clock = clock
        self._boot_id = boot_id
        self._told = told
        self._inbox: deque[tuple[Desired, bool] | Acknowledged] = deque()
        self._wanted: dict[int, DesiredLease] = {}
        self._withdraw_all = False
        book = LeaseBook(journal)
        self._book = book
        groups = groups or Groups()
        self._fences = Fences(engine, groups.limits)
        self._freer = Freer(driver, engine, book)
        self._launcher = Launcher(journal, book, Starter(driver, engine, spec, book), self._fences, groups, clock,
                                  self._publish_events)
        self._group_care = GroupCare(groups, self._freer)
        self._orphans = OrphanCare(driver, engine, book, journal.state)
        self._watch = GpuWatch(driver, journal.state)
        self._seen = Present(driver, engine)
        self._complaints = Complaints(log)
        self.present: tuple[PresentSlice, ...] = ()
        self.events: tuple[LeaseEvent, ...] = tuple(journal.state.events)
        self.generation = journal.state.desired.generation if journal.state.desired else 0
        self.active: tuple[Progress, ...] = ()
        self._learn()

    @property
    def gpus(self) -> tuple[GpuFact, ...]:
        """Every GPU as the portal is to see it, faults of our own included."""
        return self._watch.gpus

    def deliver(self, desired: Desired, fresh: bool) -> None:
        """A desired document for the next pass; ``fresh`` is the first of a connection, whose generation rules."""
        self._inbox.append((desired, fresh))

    def acknowledge(self, message: Acknowledged) -> None:
        self._inbox.append(message)

    def withdraw_all(self) -> None:
        """From the next pass on nothing is wanted any more: for a stop that takes the workloads along."""
        self._withdraw_all = True

    def idle(self) -> bool:
        """Whether no lease holds anything on this node."""
        return all(progress.phase is Phase.ENDED for progress in self._journal.state.progress.values())

    def run_pass(self) -> float:
        """Do what is due and return the seconds until the next pass is due, news aside."""
        now = self._clock.now()
        present = self._seen
        present.begin_pass()
        try:
            self._read_inbox()
            if not self._settled_after_boot(present, now):
                return STOPPING_POLL_SECONDS
            self._stop_and_free(present, now)
            self._launcher.start_due({} if self._withdraw_all else self._wanted, present)
            self._publish(present)
            self._watch.refresh(now)
        except DriverError as refusal:
            self._complaints.say(f"the driver does not answer: {refusal}")
        except (EngineError, OSError) as error:
            self._complaints.say(f"this machine hinders the agent: {error}")
            return _HINDERED_SECONDS
        self.events = tuple(self._journal.state.events)
        self._told()
        return self._seconds_to_next(now)

    def _read_inbox(self) -> None:
        state = self._journal.state
        changed = abs(self._clock.offset_seconds - state.clock_offset_seconds) > _CLOCK_STEP_SECONDS
        if changed:
            state.clock_offset_seconds = self._clock.offset_seconds
        while self._inbox:
            message = self._inbox.popleft()
            changed = True
            if isinstance(message, Acknowledged):
                known = set(message.event_ids)
                state.events = [event for event in state.events if event.id not in known]
            elif message[1] or state.desired is None or message[0].generation >= state.desired.generation:
                state.desired = message[0]
        if changed:
            self._learn()
            self._forget_ended()
            self._journal.save()

    def _learn(self) -> None:
        desired = self._journal.state.desired
        self._wanted = {lease.lease_id: lease for lease in desired.leases} if desired else {}
        self.generation = desired.generation if desired else 0
        for lease_id, progress in self._journal.state.progress.items():
            lease = self._wanted.get(lease_id)
            if lease is not None and lease.attempt == progress.lease.attempt:
                progress.lease = lease

    def _forget_ended(self) -> None:
        """An ended lease is remembered until the portal no longer asks for this attempt and knows its events."""
        state = self._journal.state
        untold = {event.lease_id for event in state.events}
        for lease_id, progress in list(state.progress.items()):
            if progress.phase is Phase.ENDED and not self._is_wanted(progress) and lease_id not in untold:
                del state.progress[lease_id]

    def _is_wanted(self, progress: Progress) -> bool:
        lease = self._wanted.get(progress.lease.lease_id)
        return lease is not None and lease.attempt == progress.lease.attempt and not self._withdraw_all

    def _settled_after_boot(self, present: Present, now: float) -> bool:
        """Whether nothing of an earlier boot is left. Instances are gone after a reboot: what still runs has no device
        and is killed; once it is gone, its lease starts anew."""
        state = self._journal.state
        boot_id = self._boot_id()
        if state.boot_id == boot_id:
            return True
        if state.boot_id:
            self._complaints.say("the boot id has changed: everything prepared before is void")
            left = [running for running in present.running().values() if running.alive]
            for running in left:
                self._engine.kill(running)
            if left:
                return False
            for progress in state.progress.values():
                if progress.phase is Phase.ACTIVE and over_nodes(progress.lease):
                    self._book.stop(progress, GPU_LOST, now, "The node was restarted; its group cannot go on.")
                elif progress.phase in (Phase.STARTING, Phase.ACTIVE):
                    self._book.begin_again(progress, now)
        present.changed()
        state.faults.clear()
        state.boot_id = boot_id
        self._journal.save()
        return True

    def _stop_and_free(self, present: Present, now: float) -> None:
        """Without an engine that answers nothing is stopped or cleared; what is due to start then fails with its words,
        and the node goes on telling the portal what it has."""
        state = self._journal.state
        try:
            if state.desired is not None:
                self._orphans.adopt_workloads(self._wanted, present, now)
            for progress in list(state.progress.values()):
                self._take_step(progress, present, now)
            if state.desired is not None:
                self._orphans.clear_instances(present, self._watch.lost, now)
        except EngineError as refusal:
            self._complaints.say(f"the engine does not answer: {refusal}")

    def _take_step(self, progress: Progress, present: Present, now: float) -> None:
        lost = self._watch.lost
        if progress.phase in (Phase.STARTING, Phase.ACTIVE) and progress.lease.gpu_uuid in lost:
            self._freer.announce_end(progress, GPU_LOST, present, now, lost[progress.lease.gpu_uuid])
        self._group_care.end_lost(progress, self._journal.state.progress, present, now)
        running = present.of(progress.lease)
        alive = running is not None and running.alive
        wanted = self._is_wanted(progress) or self._journal.state.desired is None
        step = next_step(progress.lease, progress.phase, wanted=wanted, alive=alive, now=now,
                         due_at=progress.due_at, retry_at=progress.retry_at)
        if step is Step.WITHDRAW:
            self._freer.announce_end(progress, WITHDRAWN, present, now)
        elif step is Step.EXPIRE:
            self._freer.announce_end(progress, WINDOW_OVER, present, now)
        elif step is Step.EXITED:
            progress.exit_code = exit_code_of(progress, running, self._journal.state.progress)
            self._book.stop(progress, EXITED, now)
        elif step is Step.KILL:
            self._freer.kill(progress, present, now)
        elif running is not None and progress.phase is Phase.ACTIVE:
            self._fences.mind(progress, running, now)
        self._group_care.tell(progress)
        if progress.phase is Phase.STOPPING and step is not Step.WAIT and not _lives(present, progress):
            self._freer.free(progress, present, frozenset(lost), now)

    def _publish_events(self) -> None:
        self.events = tuple(self._journal.state.events)
        self._told()

    def _publish(self, present: Present) -> None:
        """What is there, and whose it is, for the report."""
        live = [progress for progress in self._journal.state.progress.values() if progress.phase is not Phase.ENDED]
        self.active = tuple(progress for progress in live if progress.phase is Phase.ACTIVE)
        instances = tuple(
            PresentSlice(
                gpu_uuid=instance.gpu_uuid, start=instance.start, size=instance.size,
                mig_uuid=instance.mig_uuid or "",
                lease_id=next((each.lease.lease_id for each in live if is_exactly(instance, each.lease)), None))
            for instance in present.instances())
        whole = tuple(
            PresentSlice(gpu_uuid=lease.gpu_uuid, start=lease.start, size=lease.size, mig_uuid=lease.gpu_uuid,
                         lease_id=lease.lease_id)
            for lease in (progress.lease for progress in live) if lease.profile_id is None)
        self.present = instances + whole

    def _seconds_to_next(self, now: float) -> float:
        progress = self._journal.state.progress
        dues = [due_at_next(each.lease, each.phase, now, each.due_at, each.retry_at) for each in progress.values()]
        for lease in self._wanted.values():
            if lease.lease_id not in progress:
                due = due_at_first(lease, now)
                dues.append(due if due > now else now + ACTIVE_POLL_SECONDS / 10)
        soonest = min(dues, default=now + ACTIVE_POLL_SECONDS)
        return max(0.02, min(ACTIVE_POLL_SECONDS, soonest - self._clock.now()))


def _lives(present: Present, progress: Progress) -> bool:
    running = present.of(progress.lease)
    return running is not None and running.alive
