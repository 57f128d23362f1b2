"""How a lease moves on this node, and the event each move tells the portal. No driver, no engine."""

import logging

from agents.group_reasons import CHECKS
from agents.journal import Journal, Progress
from agents.protocol import DesiredLease, LeaseEvent, event_id
from agents.schedule import Phase, kill_at

log = logging.getLogger(__name__)

START_FAILED = "start_failed"
GPU_LOST = "gpu_lost"
WINDOW_OVER = "window_over"
WITHDRAWN = "withdrawn"
EXITED = "exited"

START_SECONDS = 120.0
START_TRIES = 6
STUCK_SECONDS = 10.0
_START_BACKOFF_SECONDS = 1.0
_FREE_BACKOFF_SECONDS = 0.1
MOST_BACKOFF_SECONDS = 15.0
_DETAIL_CHARACTERS = 1000
_NEVER_RAN = CHECKS | {START_FAILED}
_FAILED = _NEVER_RAN | {GPU_LOST}


class LeaseBook:
    """Moves of leases, each written to the journal with its event before it returns."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def open(self, lease: DesiredLease, now: float) -> Progress:
        """Begin with a lease: the intent is on disk before anything is made."""
        progress = Progress(lease=lease, due_at=now)
        self._journal.state.progress[lease.lease_id] = progress
        self._tell(progress, "starting", now)
        return progress

    def adopt(self, lease: DesiredLease, device: str, now: float) -> Progress:
        """Take over a workload that was found without a line in the journal."""
        progress = self.open(lease, now)
        self.activate(progress, device, now)
        return progress

    def activate(self, progress: Progress, device: str, now: float) -> None:
        progress.phase = Phase.ACTIVE
        progress.device = device
        progress.detail = ""
        self._tell(progress, "active", now)

    def retry_start(self, progress: Progress, why: str, lasting: bool, now: float) -> None:
        """A start failed: try again with back-off, or give up when that is no use or took two minutes."""
        progress.tries += 1
        if progress.first_try_at is None:
            progress.first_try_at = now
        progress.detail = why[:_DETAIL_CHARACTERS]
        wait = min(MOST_BACKOFF_SECONDS, _START_BACKOFF_SECONDS * 2 ** (progress.tries - 1))
        log.warning("lease %s: start %s failed: %s", progress.lease.lease_id, progress.tries, why)
        late = now + wait > progress.first_try_at + START_SECONDS
        if lasting or late or progress.tries >= START_TRIES:
            self.stop(progress, START_FAILED, now)
            return
        progress.due_at = now + wait
        self._journal.save()

    def begin_again(self, progress: Progress, now: float) -> None:
        """After a reboot nothing prepared is left: the lease starts anew inside its window."""
        progress.phase = Phase.STARTING
        progress.device = ""
        progress.tries = 0
        progress.first_try_at = None
        progress.due_at = now
        self._journal.save()

    def stop(
        self, progress: Progress, reason: str, now: float, detail: str = "", most_grace: float = float("inf")
    ) -> None:
        """From now on the lease is on its way to freed or failed; TERM is the caller's to send."""
        progress.phase = Phase.STOPPING
        progress.reason = reason
        progress.tries = 0
        progress.due_at = min(kill_at(progress.lease, now), now + most_grace)
        if detail:
            progress.detail = detail[:_DETAIL_CHARACTERS]
        if reason in _NEVER_RAN:
            self._journal.save()
            return
        self._tell(progress, "stopping", now, reason=reason)

    def keep_result(self, progress: Progress, exit_code: int | None, log_tail: str) -> None:
        """What the workload left: before it is removed, so that nothing is lost with it."""
        progress.exit_code = exit_code
        progress.log_tail = log_tail
        self._journal.save()

    def hinder(self, progress: Progress, why: str, now: float, most_seconds: float = MOST_BACKOFF_SECONDS) -> None:
        """The span could not be freed: never told as freed, tried again with back-off."""
        if progress.hindered_since is None:
            progress.hindered_since = now
        progress.tries += 1
        progress.hindrance = why[:_DETAIL_CHARACTERS]
        progress.retry_at = now + min(most_seconds, _FREE_BACKOFF_SECONDS * 2 ** min(progress.tries, 10))
        if progress.tries in (5, 10) or progress.tries % 50 == 0:
            log.warning("lease %s cannot be freed (try %s): %s", progress.lease.lease_id, progress.tries, why)
        self._journal.save()

    def end(self, progress: Progress, now: float) -> None:
        """The span was read back free."""
        progress.phase = Phase.ENDED
        progress.hindered_since = None
        progress.hindrance = ""
        kind = "failed" if progress.reason in _FAILED else "freed"
        self._tell(progress, kind, now, reason=progress.reason, exit_code=progress.exit_code,
                   log_tail=progress.log_tail)
        progress.log_tail = ""

    def miss(self, lease: DesiredLease, now: float) -> None:
        """The window was over before anything was made."""
        progress = Progress(lease=lease, phase=Phase.ENDED, reason=WINDOW_OVER,
                            detail="The window was over before the workload could be started.")
        self._journal.state.progress[lease.lease_id] = progress
        self._tell(progress, "freed", now, reason=WINDOW_OVER)

    def _tell(
        self, progress: Progress, kind: str, now: float, *, reason: str = "", exit_code: int | None = None,
        log_tail: str = "",
    ) -> None:
        lease = progress.lease
        event = LeaseEvent(
            id=event_id(lease.lease_id, kind, lease.attempt), lease_id=lease.lease_id, kind=kind, at=now,
            mig_uuid=progress.device if progress.device.startswith("MIG-") else "", reason=reason,
            exit_code=exit_code, detail=progress.detail, log_tail=log_tail)
        events = self._journal.state.events
        if all(known.id != event.id for known in events):
            events.append(event)
        self._journal.save()
        log.info("lease %s: %s %s %s", lease.lease_id, kind, reason, progress.detail)


def stuck(progress: Progress, now: float) -> bool:
    """Whether freeing has failed for so long that the GPU counts as faulty."""
    return progress.hindered_since is not None and now - progress.hindered_since >= STUCK_SECONDS
