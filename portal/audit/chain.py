"""What a seal's hash is made of. A change here breaks every chain there is: never change it, add a second kind."""

import datetime as dt
import hashlib
import json

from portal.audit.models import AuditEntry

FIRST_LINK = "0" * 64


def entry_hash(previous_hash: str, entry: AuditEntry) -> str:
    """SHA-256 of the hash before and the entry as the database gives it back, so never of one that is not read."""
    return hashlib.sha256(f"{previous_hash}\n{canonical(entry)}".encode()).hexdigest()


def canonical(entry: AuditEntry) -> str:
    """The entry as JSON that has one form only: sorted keys, no spaces, times in UTC to the microsecond."""
    told = {
        "id": entry.pk,
        "at": entry.at.astimezone(dt.UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor_id,
        "tenant": entry.tenant_id,
        "action": entry.action,
        "subject": entry.subject,
        "before": entry.before,
        "after": entry.after,
        "via": entry.via,
        "address": entry.address,
    }
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
