"""The usage of a tenant as CSV: the cells that the page adds up, to the millisecond."""

import csv
from collections.abc import Iterator
from decimal import Decimal

from portal.reports.figures import MS
from portal.reports.usage_rows import Usage
from portal.tenants.models import Tenant

HEADER = (
    "day", "tenant", "member", "email", "reserved_slice_seconds", "running_slice_seconds", "used_slice_seconds",
    "idle_slice_seconds", "not_measured_slice_seconds",
)  # fmt: skip
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(text: str) -> str:
    """Text that a spreadsheet takes as text: what it would run as a formula gets an apostrophe in front."""
    return f"'{text}" if text.startswith(STARTS_A_FORMULA) else text


def usage_rows(tenant: Tenant, usage: Usage) -> Iterator[tuple]:
    """One row a day and member; used and idle are empty where nothing could be measured."""
    for person, date, figures in usage.by_member_and_day:
        known = figures.measurable
        yield (
            date.isoformat(), cell(tenant.name), cell(str(person)), cell(person.email),
            figures.reserved, figures.running, _seconds(figures.used_ms) if known else "",
            _seconds(figures.idle_ms) if known else "", _seconds(figures.unmeasured_ms),
        )  # fmt: skip


def write_usage(out, tenant: Tenant, usage: Usage) -> None:
    writer = csv.writer(out)
    writer.writerow(HEADER)
    writer.writerows(usage_rows(tenant, usage))


def _seconds(ms: int) -> Decimal:
    return Decimal(ms) / MS
