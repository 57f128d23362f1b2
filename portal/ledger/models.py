"""What was held, append-only: the database refuses UPDATE and DELETE. Usage pages and reports are sums over it.

Sums by day are kept beside it, so that a year of budget is not a walk over every lease of the year.
"""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
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


class UnsummedEntry(models.Model):
    """A ledger entry that no daily sum holds yet: what is open, and what was closed or corrected since.

    The database adds it in the transaction of the entry itself, and the sweep that sums the entry takes it away in the
    transaction of the sum. So an entry is counted once whenever it commits, in whatever order of ids or transactions,
    and a reader finds it in one of the two places: no high-water mark could promise that.
    """

    entry = models.OneToOneField(LedgerEntry, primary_key=True, on_delete=models.PROTECT, related_name="+")
    lease_id = models.BigIntegerField()
    kind = models.CharField(max_length=16, choices=Kind.choices)

    class Meta:
        indexes = [models.Index(fields=["lease_id"], name="ledger_unsummed_lease")]

    def __str__(self) -> str:
        return f"unsummed {self.entry_id}"


class SumBatch(models.Model):
    """One pass of summing up. A ``rebuilt`` one sums everything anew: batches before the newest such are void."""

    made_at = models.DateTimeField(auto_now_add=True)
    rebuilt = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["-id"], condition=Q(rebuilt=True), name="ledger_batch_rebuilt")]

    def __str__(self) -> str:
        return f"batch {self.pk}"


class DailySum(models.Model):
    """What one batch found that a tenant held in a pool on one UTC day, in weighted slice-seconds; append-only.

    ``entries`` are the ids of the closed and corrected rows it is the sum of, so that a part of a day can be read from
    the raw rows, and anybody can check it.
    """

    batch = models.ForeignKey(SumBatch, on_delete=models.PROTECT, related_name="sums", db_index=False)
    day = models.DateField()
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey("inventory.Pool", on_delete=models.PROTECT, related_name="+", db_index=False)
    slice_seconds = models.BigIntegerField()
    entries = ArrayField(models.BigIntegerField())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "day", "tenant", "pool"], name="ledger_sum_once_per_batch")
        ]
        indexes = [
            models.Index(fields=["tenant", "day"], include=["batch", "slice_seconds"], name="ledger_sum_tenant_day")
        ]

    def __str__(self) -> str:
        return f"{self.slice_seconds} slice-s on {self.day}"
