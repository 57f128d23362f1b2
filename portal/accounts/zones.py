"""The time zones that a person may choose."""

import zoneinfo
from functools import cache


@cache
def zone_names() -> tuple[str, ...]:
    """Every zone of this machine's database, by name; what follows the machine itself is no choice."""
    return tuple(sorted(name for name in zoneinfo.available_timezones() if name not in ("localtime", "Factory")))
