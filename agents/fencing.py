"""Telling each workload's engine how long it may run, so that its window ends it even while this agent is gone.

A rank of a group over nodes may run only a little longer than this agent watches over it: when the agent is gone, the
other ranks end, and this one must not hold its GPUs for a group that is no more.
"""

import logging

from agents.containers.contract import Engine, EngineError, Running
from agents.groups.session import Limits
from agents.groups.sharing import over_nodes
from agents.journal import Progress
from agents.schedule import term_at

_RENEW_SECONDS = 4.0

log = logging.getLogger(__name__)


class Fences:
    """Told once for each end of a window, and again by a new agent; of a rank, as long as it is watched over."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self._engine = engine
        self._limits = limits
        self._told: dict[str, float] = {}

    def mind(self, progress: Progress, running: Running, now: float) -> None:
        """What cannot be told now, as on a full disk, is told in a later pass: nothing else waits for it."""
        lease = progress.lease
        term, kill = term_at(lease), lease.ends_at
        if over_nodes(lease):
            term = min(term, now + self._limits.unwatched_seconds)
            kill = min(kill, term + min(lease.workload.grace_seconds, self._limits.grace_seconds))
        told = self._told.get(running.name, 0.0)
        if told == kill or (over_nodes(lease) and 0 <= kill - told < _RENEW_SECONDS):
            return
        try:
            self._engine.fence(running, term - now, kill - now)
        except (EngineError, OSError) as refusal:
            log.warning("lease %s has no fence: %s", lease.lease_id, refusal)
            return
        self._told[running.name] = kill
