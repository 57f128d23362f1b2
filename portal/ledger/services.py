"""Appending to the ledger."""

import datetime as dt
import uuid

from portal.ledger.models import Kind, LedgerEntry

_NAMESPACE = uuid.UUID("0a9d2f57-6d52-4f5e-8a45-3b7d1f1c9e02")


def record_entry(*, kind: Kind, lease_id: int, at: dt.datetime, **facts: int | str) -> None:
    """Append one entry, once: the id is derived from the lease and the kind, and a second telling changes nothing."""
    event_id = uuid.uuid5(_NAMESPACE, f"{lease_id}/{kind}")
    LedgerEntry.objects.bulk_create(
        [LedgerEntry(event_id=event_id, kind=kind, lease_id=lease_id, at=at, **facts)], ignore_conflicts=True
    )
