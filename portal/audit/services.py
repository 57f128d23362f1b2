"""Writing the audit trail; called inside the transaction of the change itself."""

from typing import Any

from portal.audit.models import AuditEntry
from portal.audit.origin import current_origin

LONGEST_SUBJECT = 128


def record_change(
    *,
    actor: Any,
    action: str,
    subject: str,
    tenant_id: int | None = None,
    before: dict | None = None,
    after: dict | None = None,
) -> AuditEntry:
    """Append one entry; ``actor`` None is Berth itself (a sweep, an agent's report). Sealed later, after commit."""
    origin = current_origin()
    return AuditEntry.objects.create(
        actor=actor,
        tenant_id=tenant_id,
        action=action,
        subject=subject[:LONGEST_SUBJECT],
        before=before or {},
        after=after or {},
        via=origin.via,
        address=origin.address,
    )
