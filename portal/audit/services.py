"""Writing the audit trail; called inside the transaction of the change itself."""

from typing import Any

from portal.audit.models import AuditEntry


def record_change(
    *,
    actor: Any,
    action: str,
    subject: str,
    tenant_id: int | None = None,
    before: dict | None = None,
    after: dict | None = None,
) -> AuditEntry:
    """Append one entry; ``actor`` None is Berth itself (a sweep, an agent's report)."""
    return AuditEntry.objects.create(
        actor=actor, tenant_id=tenant_id, action=action, subject=subject, before=before or {}, after=after or {}
    )
