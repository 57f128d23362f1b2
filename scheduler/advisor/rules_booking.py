"""What the bookings say, without a metric: windows left unused, gangs spread over more nodes than they need."""

import numpy as np

from scheduler.advisor.findings import Seen, at_least, below, percent, rounded, seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import PastBooking, Recording


def over_booked_time(recording: Recording, counts: np.ndarray) -> list[Seen]:
    limit = LIMITS["over_booked_time"]
    recent = [one for one in recording.lease.past if one.days_ago <= limit["days"] and not one.excused]
    short = [one for one in recent if _is_short(one)]
    if not short:
        return []
    unused = sum(1 - one.used_seconds / one.booked_seconds for one in short) / len(short)
    tests = [
        at_least("bookings_ended_early", len(short), limit["times_least"]),
        at_least("unused_share", unused, limit["unused_share_least"]),
    ]
    hours = rounded(sum(one.booked_seconds - one.used_seconds for one in short) / 3600)
    one = seen(tests, {"times": len(short), "percent": percent(unused), "unused_hours": hours}, spans=_all(recording))
    return [one] if one else []


def _is_short(booking: PastBooking) -> bool:
    limit = LIMITS["over_booked_time"]
    unused = booking.booked_seconds - booking.used_seconds
    return unused > limit["unused_seconds_least"] and unused > limit["unused_share_least"] * booking.booked_seconds


def spread_gang(recording: Recording, counts: np.ndarray) -> list[Seen]:
    """Only where fewer nodes had room when it was booked, or more of the host is held than belongs to the GPUs."""
    spread, ranks = recording.lease.spread, len(recording.ranks)
    if spread is None:
        return []
    needed = -(-ranks // spread.gpus_per_node)
    params: dict[str, str | int | float] = {"gpus": ranks, "nodes": spread.nodes, "needed": needed}
    found = None
    if spread.nodes > needed and spread.room_on_fewer:
        found = seen([at_least("nodes", spread.nodes, needed + 1)], params, spans=_all(recording))
    elif spread.host_share > 1:
        used = below("host_used", spread.host_used, LIMITS["spread_gang"]["host_share_used_most"])
        found = seen([at_least("host_share", spread.host_share, 1.0), used], params, spans=_all(recording))
    return [found] if found else []


def _all(recording: Recording) -> tuple[tuple[int, int], ...]:
    return ((0, recording.seconds),)
