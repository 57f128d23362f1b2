"""Measured use of leases, as means: 10 s buckets for charts, 5 min buckets for reports."""

from django.db import models
from django.db.models import Q


class UseBucket(models.Model):
    """Use of one lease in one bucket of ``seconds`` (10, 300). A mean is None where nothing could be measured.

    ``measured_seconds`` counts the seconds with a utilization, ``busy_ms`` their sum of utilization x time: busy
    milliseconds of the whole slice, so that reports add integers.
    """

    lease = models.ForeignKey("reservations.Lease", on_delete=models.CASCADE, related_name="use")
    at = models.DateTimeField()
    seconds = models.PositiveSmallIntegerField()
    utilization = models.FloatField(null=True)
    tensor = models.FloatField(null=True)
    memory_used_mib = models.PositiveBigIntegerField(null=True)
    memory_peak_mib = models.PositiveBigIntegerField(null=True)
    cpu_percent = models.FloatField(null=True)
    measured_seconds = models.PositiveSmallIntegerField(default=0)
    busy_ms = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lease", "seconds", "at"], name="use_bucket_once"),
            models.CheckConstraint(condition=Q(seconds__in=[10, 300]), name="use_bucket_width_known"),
        ]
        indexes = [models.Index(fields=["seconds", "at"], name="use_bucket_age")]

    def __str__(self) -> str:
        return f"lease {self.lease_id} at {self.at}"
