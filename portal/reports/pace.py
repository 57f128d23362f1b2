"""Where a budget ends up when its period goes on as it began. Pure."""

import datetime as dt
from dataclasses import dataclass

from portal.ledger.folding import whole_second


@dataclass(frozen=True)
class Pace:
    """``end_left`` slice-seconds are left when the period ends (negative: over); ``runs_out_at`` is when, if ever."""

    end_left: int
    runs_out_at: dt.datetime | None

    @property
    def over(self) -> int:
        return max(0, -self.end_left)


def pace_of(amount: int, spent: int, since: dt.datetime, until: dt.datetime, now: dt.datetime) -> Pace | None:
    """The mean so far, carried on. None before an hour of the period has passed: too little to say anything."""
    elapsed, whole = whole_second(now) - whole_second(since), whole_second(until) - whole_second(since)
    if elapsed < 3600:
        return None
    projected = spent * whole // elapsed
    if projected <= amount or spent == 0:
        return Pace(amount - projected, None)
    return Pace(amount - projected, since + dt.timedelta(seconds=amount * elapsed // spent))
