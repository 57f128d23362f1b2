"""What is kept beside reservations: answered requests, events that fit no lease, marks for pictures of a pool."""

from django.conf import settings
from django.db import models
from django.db.models.fields.json import JSONField
from django.db.models.functions import Now
from django.utils import timezone

from portal.reservations.models.reservation import Reservation


class IdempotencyKey(models.Model):
    """What a key of one person answered, so that sending the same request again books nothing twice."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=100)
    request_hash = models.CharField(max_length=64)
    reservation = models.ForeignKey(Reservation, null=True, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once_per_user")]

    def __str__(self) -> str:
        return self.key


class QuarantinedEvent(models.Model):
    """An agent's event that does not fit its lease: kept to be looked at, never applied."""

    event_id = models.CharField(max_length=128, unique=True)
    node = models.ForeignKey("inventory.Node", on_delete=models.PROTECT, related_name="+")
    body = JSONField()
    why = models.CharField(max_length=255)
    recorded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.event_id}: {self.why}"


class ChangeMark(models.Model):
    """That a transaction changed something that pictures of pools hold beside leases. Written by the database alone,
    whoever changes it; forgotten after a day, when no picture is that old."""

    class What(models.TextChoices):
        FLEET = "fleet", "GPUs, nodes, maintenance, profiles"
        TERMS = "terms", "quotas, policies, budgets"
        ERASED = "erased", "rows that are gone"

    what = models.CharField(max_length=8, choices=What.choices)
    changed_in = models.BigIntegerField()
    marked_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["changed_in", "what"], name="change_mark_once")]

    def __str__(self) -> str:
        return f"{self.what} changed in {self.changed_in}"
