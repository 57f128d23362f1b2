"""Which leases are due to start, what they wait for, and starting them; the ranks of a group only when all can."""

import logging
from collections.abc import Callable, Mapping

from agents.clock import Clock
from agents.fencing import Fences
from agents.groups.session import Stage
from agents.groups.sharing import has_own_workload
from agents.groups.watch import Groups
from agents.journal import Journal, Progress
from agents.leases import LeaseBook
from agents.present import Present
from agents.protocol import DesiredLease
from agents.schedule import STOPPING_POLL_SECONDS, Phase, Step, first_step, next_step, overlaps
from agents.starting import Starter

log = logging.getLogger(__name__)


class Launcher:
    """``told`` is called when a lease begins to start and when it has started, so that both are told at once."""

    def __init__(
        self, journal: Journal, book: LeaseBook, starter: Starter, fences: Fences, groups: Groups, clock: Clock,
        told: Callable[[], None],
    ) -> None:
        self._state = journal.state
        self._book = book
        self._starter = starter
        self._fences = fences
        self._groups = groups
        self._clock = clock
        self._told = told

    def start_due(self, wanted: Mapping[int, DesiredLease], present: Present) -> None:
        for lease in sorted(wanted.values(), key=lambda each: (each.starts_at, each.lease_id)):
            now = self._clock.now()
            progress = self._state.progress.get(lease.lease_id)
            if progress is not None and progress.lease.attempt < lease.attempt and progress.phase is Phase.ENDED:
                progress = None
            if not self._is_due(lease, progress, now) or self._blocked(lease):
                continue
            progress = progress or self._book.open(lease, now)
            self._told()
            if lease.group is None:
                self._bring_up(progress, present, now)
            elif has_own_workload(lease):
                self._start_group(progress, present, now)
            else:
                self._join(progress, now)
            self._told()

    def _bring_up(self, progress: Progress, present: Present, now: float) -> None:
        self._starter.bring_up(progress, present, now)
        if progress.phase is Phase.ACTIVE and (running := present.of(progress.lease)) is not None:
            self._fences.mind(progress, running, now)

    def _start_group(self, progress: Progress, present: Present, now: float) -> None:
        """Once all its GPUs here are free and opened, and the agents of all its nodes have found each other."""
        group = progress.lease.group
        assert group is not None
        if not all(self._is_open(each.lease_id, progress) for each in group.here):
            self._wait(progress, now)
            return
        session = self._groups.session(group, running=False)
        if session.stage is Stage.CHECKING:
            self._wait(progress, now)
        elif session.trouble is not None:
            self._book.stop(progress, session.trouble.reason, now, session.trouble.about)
        else:
            self._bring_up(progress, present, now)

    def _is_open(self, lease_id: int, first: Progress) -> bool:
        other = self._state.progress.get(lease_id)
        return other is not None and other.phase is Phase.STARTING and other.lease.attempt == first.lease.attempt

    def _join(self, progress: Progress, now: float) -> None:
        """A lease that shares the workload of another is served once that one runs, and fails with it."""
        group = progress.lease.group
        assert group is not None
        first = self._state.progress.get(group.first_lease_id)
        if first is None or first.phase is Phase.STARTING or first.lease.attempt != progress.lease.attempt:
            self._wait(progress, now)
        elif first.phase is Phase.ACTIVE:
            self._book.activate(progress, progress.lease.gpu_uuid, now)
        else:
            self._book.stop(progress, first.reason, now, first.detail)

    def _wait(self, progress: Progress, now: float) -> None:
        progress.due_at = now + STOPPING_POLL_SECONDS

    def _is_due(self, lease: DesiredLease, progress: Progress | None, now: float) -> bool:
        if progress is None:
            step = first_step(lease, now)
            if step is Step.MISS:
                self._book.miss(lease, now)
            return step is Step.START
        if progress.phase is not Phase.STARTING or progress.lease.attempt != lease.attempt:
            return False
        step = next_step(lease, progress.phase, wanted=True, alive=False, now=now, due_at=progress.due_at)
        return step is Step.START

    def _blocked(self, lease: DesiredLease) -> bool:
        """Whether another lease still holds a slice of this span: the next one waits until that is read back free."""
        return any(
            progress.lease.lease_id != lease.lease_id and progress.phase is not Phase.ENDED
            and overlaps(progress.lease, lease)
            for progress in self._state.progress.values())
