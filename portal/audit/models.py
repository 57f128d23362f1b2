"""Who changed what, when, from where: append-only, guarded in the database, sealed in a chain of hashes."""

from django.conf import settings
from django.db import models

from portal.audit.origin import Via


class AuditEntry(models.Model):
    """One change of a state or a right. ``before`` and ``after`` hold only what changed; secrets never appear."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=128)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    via = models.CharField(max_length=8, choices=Via.choices, default="", blank=True)
    address = models.CharField(max_length=45, default="", blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="audit_tenant_newest"),
            models.Index(fields=["actor", "-id"], name="audit_actor_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


class AuditSeal(models.Model):
    """An entry's place in the chain: each hash covers the entry and the hash before it. No two can follow the same."""

    position = models.BigIntegerField(primary_key=True)
    entry = models.OneToOneField(AuditEntry, on_delete=models.PROTECT, related_name="seal")
    previous_hash = models.CharField(max_length=64, unique=True)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.CheckConstraint(condition=models.Q(position__gte=1), name="audit_seal_from_one")]

    def __str__(self) -> str:
        return f"{self.position}: {self.hash[:12]}"
