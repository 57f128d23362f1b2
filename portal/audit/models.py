"""Who changed what, when: append-only, guarded in the database."""

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    """One change of a state or a right. ``before`` and ``after`` hold only what changed; secrets never appear."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=128)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["tenant", "-id"], name="audit_tenant_newest")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"
