"""The audit trail as CSV, written page by page while it is read: as long as the trail is, never in memory at once."""

import csv
import io
import json
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.db.models import QuerySet

from portal.audit.models import AuditEntry
from portal.audit.selectors import page_before
from portal.reports.usage_csv import cell

ROWS_AT_ONCE = 1000
HEADER = (
    "id", "at", "actor", "actor_email", "tenant_id", "tenant", "action", "subject", "before", "after", "via",
    "address", "position", "hash",
)  # fmt: skip


async def audit_lines(rows: QuerySet[AuditEntry]) -> AsyncIterator[str]:
    """Text of some thousand rows at a time. Asynchronous, because the server would else gather all of it first."""
    yield _lines([HEADER])
    before, more = None, True
    while more:
        page, more = await sync_to_async(page_before)(rows, before, ROWS_AT_ONCE)
        if page:
            before = page[-1].pk
            yield _lines([_row(entry) for entry in page])


def _row(entry: AuditEntry) -> tuple:
    """Times in UTC; what is empty has none. ``position`` and ``hash`` are empty until the entry is sealed."""
    seal = getattr(entry, "seal", None)
    return (
        entry.pk, entry.at.isoformat(), cell(str(entry.actor or "")), cell(entry.actor.email if entry.actor else ""),
        entry.tenant_id or "", cell(str(entry.tenant or "")), cell(entry.action), cell(entry.subject),
        json.dumps(entry.before, ensure_ascii=False), json.dumps(entry.after, ensure_ascii=False), entry.via,
        entry.address, seal.position if seal else "", seal.hash if seal else "",
    )  # fmt: skip


def _lines(rows: list[tuple]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
