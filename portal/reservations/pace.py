"""Where a budget ends up when the coming time goes on as the last two weeks did. Pure."""

import datetime as dt
from dataclasses import dataclass

from portal.ledger.folding import whole_second

LOOKED_BACK = dt.timedelta(days=14)


@dataclass(frozen=True)
class Pace:
    """``end_left`` slice-seconds are left when the period ends (negative: over); ``runs_out_at`` is when, if before."""

    end_left: int
    runs_out_at: dt.datetime | None

    @property
    def over(self) -> int:
        return max(0, -self.end_left)


def pace_of(left: int, recent: int, until: dt.datetime, now: dt.datetime) -> Pace:
    """``left`` is what is neither spent nor committed; ``recent`` what was spent in the two weeks before now.

    What is committed is gone already, and new reservations keep claiming as much a day as was spent a day.
    """
    looked_back = int(LOOKED_BACK.total_seconds())
    pace, ahead = max(0, recent), max(0, whole_second(until) - whole_second(now))
    end_left = left - pace * ahead // looked_back
    if left <= 0:
        return Pace(end_left, now)
    if end_left >= 0:
        return Pace(end_left, None)
    runs_out_at = now + dt.timedelta(seconds=left * looked_back // pace)
    return Pace(end_left, runs_out_at if runs_out_at < until else None)
