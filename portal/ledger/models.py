"""What was held, append-only: the database refuses UPDATE and DELETE. Usage pages and reports are sums over it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q


class Kind(models.TextChoices):
    """``opened`` and ``closed`` bracket what a lease held; ``corrected`` adds signed seconds later."""

    OPENED = "opened"
    CLOSED = "closed"
    CORRECTED = "corrected"


class LedgerEntry(models.Model):
    """One fact about one lease. ``event_id`` is derived from what happened, so the same event told twice is one row.

    ``weight`` and ``slices`` are copied at the time, so that later changes never alter an old report.
    """

    event_id = models.UUIDField(unique=True, default=uuid.uuid4)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    lease_id = models.BigIntegerField()
    reservation_id = models.BigIntegerField()
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey("inventory.Pool", on_delete=models.PROTECT, related_name="+")
    profile_name = models.CharField(max_length=64)
    at = models.DateTimeField()
    weight = models.PositiveSmallIntegerField()
    slices = models.PositiveSmallIntegerField()
    seconds = models.BigIntegerField(default=0)
    source = models.CharField(max_length=64)
    recorded_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="ledger_kind_known"),
            models.CheckConstraint(
                condition=Q(kind=Kind.CORRECTED) | Q(seconds=0), name="ledger_seconds_only_in_corrections"
            ),
            models.UniqueConstraint(
                fields=["lease_id", "kind"],
                condition=Q(kind__in=["opened", "closed"]),
                name="ledger_opened_and_closed_once",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "at"], name="ledger_tenant_at"),
            models.Index(fields=["lease_id"], name="ledger_lease"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} lease {self.lease_id} at {self.at:%Y-%m-%d %H:%M:%S}"
