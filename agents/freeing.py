"""Taking a lease down: the workload, what it left, its slice; `freed` is told only when read back."""

import logging
from collections.abc import Callable

from agents.containers.contract import Engine, EngineError, Running
from agents.drivers.contract import DriverError, GpuDriver
from agents.groups.sharing import has_own_workload
from agents.journal import Progress
from agents.leases import EXITED, GPU_LOST, START_FAILED, LeaseBook
from agents.logtext import plain_text
from agents.present import Present
from agents.protocol import DesiredLease
from agents.starting import with_holders

log = logging.getLogger(__name__)

EVENT_TAIL_BYTES = 16 * 1024
_KILL_BACKOFF_SECONDS = 1.0


class Freer:
    def __init__(self, driver: GpuDriver, engine: Engine, book: LeaseBook) -> None:
        self._driver = driver
        self._engine = engine
        self._book = book

    def announce_end(
        self, progress: Progress, reason: str, present: Present, now: float, detail: str = "",
        most_grace: float = float("inf"),
    ) -> None:
        """TERM, and the grace begins; the engine kills after it, and so does a later pass. What leases share is told by
        the one it belongs to."""
        self._book.stop(progress, reason, now, detail, most_grace)
        running = present.of(progress.lease)
        if running is not None and running.alive and has_own_workload(progress.lease):
            grace_seconds = max(0.0, progress.due_at - now)
            self._ask(progress, lambda: self._engine.stop(running, grace_seconds))

    def kill(self, progress: Progress, present: Present, now: float) -> None:
        """The grace is over, or the window is: KILL, in every pass until it is gone."""
        running = present.of(progress.lease)
        if running is not None:
            self._ask(progress, lambda: self._engine.kill(running))
            present.changed()
            self._book.hinder(progress, f"Workload {running.name} does not end after KILL.", now, _KILL_BACKOFF_SECONDS)

    def free(self, progress: Progress, present: Present, lost: frozenset[str], now: float) -> None:
        """Clear what the ended workload held. On success the lease ends; otherwise it is noted and tried again."""
        lease = progress.lease
        try:
            running = present.of(lease)
            if running is not None:
                self._keep_result(progress, running)
                if not has_own_workload(lease):
                    return  # it is removed with the lease it belongs to, and this one is free after that
                self._engine.remove(running)
                present.changed()
            if lease.gpu_uuid in lost:
                progress.reason = GPU_LOST
            else:
                self._clear_span(lease, present)
            if present.of(lease) is not None:
                raise EngineError("The workload is still there after it was removed.")
        except DriverError as refusal:
            self._book.hinder(progress, with_holders(refusal), now)
        except (EngineError, OSError) as refusal:
            self._book.hinder(progress, str(refusal), now)
        else:
            self._book.end(progress, now)

    def _clear_span(self, lease: DesiredLease, present: Present) -> None:
        if lease.profile_id is None:
            self._assert_idle(lease)
            return
        for instance in present.on_span(lease):
            self._driver.destroy(instance)
        present.changed()
        left = present.on_span(lease)
        if left:
            raise DriverError("The driver reported success, yet the slice is still there when read back.")

    def _assert_idle(self, lease: DesiredLease) -> None:
        """A whole GPU without MIG is free when no process holds it any more."""
        use = self._driver.use((), (lease.gpu_uuid,)).get(lease.gpu_uuid)
        if use is not None and use.pids:
            raise DriverError("The GPU is still in use.", holders=use.pids)

    def _keep_result(self, progress: Progress, running: Running) -> None:
        _, tail = self._engine.log(running, -1, EVENT_TAIL_BYTES)
        exit_code = running.exit_code if progress.reason in (EXITED, START_FAILED) else None
        self._book.keep_result(progress, exit_code, plain_text(tail))

    def _ask(self, progress: Progress, ask: Callable[[], None]) -> None:
        """What the engine refuses now is asked again: the next pass reads what is left and goes on from there."""
        try:
            ask()
        except (EngineError, OSError) as refusal:
            log.warning("lease %s: %s", progress.lease.lease_id, refusal)
