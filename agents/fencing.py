"""Telling each workload's engine how long it may run, so that its window ends it even while this agent is gone."""

import logging

from agents.containers.contract import Engine, EngineError, Running
from agents.journal import Progress
from agents.schedule import term_at

log = logging.getLogger(__name__)


class Fences:
    """Told once for each end of a window, and again by a new agent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[str, float] = {}

    def mind(self, progress: Progress, running: Running, now: float) -> None:
        """What cannot be told now, as on a full disk, is told in a later pass: nothing else waits for it."""
        lease = progress.lease
        if self._told.get(running.name) == lease.ends_at:
            return
        try:
            self._engine.fence(running, term_at(lease) - now, lease.ends_at - now)
        except (EngineError, OSError) as refusal:
            log.warning("lease %s has no fence: %s", lease.lease_id, refusal)
            return
        self._told[running.name] = lease.ends_at
