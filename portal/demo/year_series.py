"""Series of the made-up year: of each person and tenant the last reservation granted is the one date of a series."""

import datetime as dt
import zoneinfo
from collections.abc import Sequence

import msgspec

from portal.reservations.models import Reservation, Series, State
from portal.reservations.series_dates import MOST_DAYS, Rule
from portal.workloads.drafts import WorkloadDraft

GRANTED = (State.CONFIRMED, State.RUNNING, State.ENDED)


def write_series(rows: Sequence[Reservation], zones: dict[int, str]) -> int:
    """``zones`` are the time zones of tenants. The rule of each series names the very date and hours of its
    reservation, so that both say the same. Returns how many were written."""
    by_start = sorted(rows, key=lambda row: row.during.lower)
    last = {(row.owner_id, row.tenant_id): row for row in by_start if row.state in GRANTED}
    pairs = [(row, series) for row in last.values() if (series := _series(row, zones)) is not None]
    Series.objects.bulk_create(series for _row, series in pairs)
    for row, series in pairs:
        row.series, row.occurrence = series, series.first_date
    Reservation.objects.bulk_update([row for row, _series in pairs], ["series", "occurrence"])
    return len(pairs)


def _series(row: Reservation, zones: dict[int, str]) -> Series | None:
    zone = zoneinfo.ZoneInfo(zones[row.tenant_id])
    start, end = row.during.lower.astimezone(zone), row.during.upper.astimezone(zone)
    days = (end.date() - start.date()) // dt.timedelta(days=1)
    if days > MOST_DAYS:
        return None
    return Series(
        tenant_id=row.tenant_id, owner_id=row.owner_id, created_by_id=row.created_by_id, pool_id=row.pool_id,
        profile_id=row.profile_id, ranks=row.ranks, name=row.workload.name, rule=str(Rule("WEEKLY", count=1)),
        time_zone=zone.key, first_date=start.date(), opens=start.time(), closes=end.time(), days=days,
        created_at=row.created_at, draft=msgspec.to_builtins(WorkloadDraft(row.workload.name, command=("train",))),
    )  # fmt: skip
