"""The most weight held at one moment: the one sum that quotas, shares and policies over time are judged by."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable

from psycopg2.extras import DateTimeTZRange

# From when, until when, and how much weight is held.
Part = tuple[dt.datetime, dt.datetime, int]


def highest(parts: Iterable[Part]) -> int:
    """At any one moment; what ends gives way to what begins at the same instant: times are half-open."""
    changes: dict[dt.datetime, int] = defaultdict(int)
    for since, until, weight in parts:
        changes[since] += weight
        changes[until] -= weight
    held = peak = 0
    for moment in sorted(changes):
        held += changes[moment]
        peak = max(peak, held)
    return peak


def highest_within(parts: Iterable[Part], during: DateTimeTZRange) -> int:
    """At any one moment of the window."""
    inside = ((max(since, during.lower), min(until, during.upper), weight) for since, until, weight in parts)
    return highest(part for part in inside if part[0] < part[1])
