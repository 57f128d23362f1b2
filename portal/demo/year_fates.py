"""How reservations of the made-up year end, and how often."""

import datetime as dt
import random
from dataclasses import dataclass

from portal.reservations.models import LIVE, UNDER_WAY, EndReason, LeaseState, State


@dataclass(frozen=True)
class Fate:
    """``lease_reason`` and ``lease_state`` are those of the leases, as an agent's report or a sweep leaves them."""

    state: State
    end_reason: EndReason | None = None
    lease_state: LeaseState = LeaseState.ENDED
    lease_reason: str = ""
    ran: bool = False
    has_place: bool = True

    @property
    def is_over(self) -> bool:
        return self.state not in UNDER_WAY

    @property
    def is_live(self) -> bool:
        """Whether its leases hold their slices in the end."""
        return self.has_place and self.lease_state in LIVE


def _ended(reason: EndReason, lease_reason: str, ran: bool = True, state: LeaseState = LeaseState.ENDED) -> Fate:
    return Fate(State.ENDED, reason, state, lease_reason, ran)


CANCELLED = Fate(State.CANCELLED, lease_reason="withdrawn")
REFUSED = Fate(State.REFUSED, has_place=False)
RUNNING = Fate(State.RUNNING, lease_state=LeaseState.ACTIVE, ran=True)
CONFIRMED = Fate(State.CONFIRMED, lease_state=LeaseState.PLANNED)
REQUESTED = Fate(State.REQUESTED, lease_state=LeaseState.PLANNED)
QUEUED = Fate(State.QUEUED, has_place=False)
RELEASED = _ended(EndReason.RELEASED, "withdrawn")
PAST = (
    (0.40, _ended(EndReason.COMPLETED, "window_over")),
    (0.20, _ended(EndReason.COMPLETED, "exited")),
    (0.17, RELEASED),
    (0.05, _ended(EndReason.FAILED, "exit_failed")),
    (0.02, _ended(EndReason.FAILED, "start_failed", ran=False, state=LeaseState.FAILED)),
    (0.03, _ended(EndReason.NO_SHOW, "not_started", ran=False)),
    (0.01, _ended(EndReason.NODE_LOST, "node_lost")),
    (0.01, _ended(EndReason.DISPLACED, "displaced")),
    (0.01, REFUSED),
    (0.10, CANCELLED),
)
NOW = ((0.85, RUNNING), (0.1, RELEASED), (0.05, CANCELLED))
# Of every twenty that lie ahead, by their number: what waits is rare, and never missing.
AHEAD = {3: REQUESTED, 7: CANCELLED, 9: QUEUED, 16: QUEUED}
AHEAD_CYCLE = 20


def fate_of(number: int, start: dt.datetime, end: dt.datetime, now: dt.datetime, chance: random.Random) -> Fate:
    """Of the ``number``-th window, which is over, under way or ahead at ``now``."""
    if start > now:
        return AHEAD.get(number % AHEAD_CYCLE, CONFIRMED)
    table = NOW if end > now else PAST
    return chance.choices([fate for _, fate in table], [share for share, _ in table])[0]
