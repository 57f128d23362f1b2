"""What a reservation waits for: a lead's yes, a place, the dates of a series."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Decision(models.TextChoices):
    APPROVED = "approved", _("approved")
    REFUSED = "refused", _("refused")
    EXPIRED = "expired", _("expired")
    WITHDRAWN = "withdrawn", _("withdrawn")


class Approval(models.Model):
    """One question to the leads of a tenant about one reservation or a whole series; open until ``decision`` is set."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="approvals")
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    price_slice_seconds = models.PositiveBigIntegerField()
    threshold_slice_seconds = models.PositiveBigIntegerField()
    decision = models.CharField(max_length=16, choices=Decision.choices, blank=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(decision__in=["", *Decision.values]), name="approval_decision_known"),
            models.CheckConstraint(
                condition=Q(decision="", decided_at__isnull=True) | (~Q(decision="") & Q(decided_at__isnull=False)),
                name="approval_decided_at_a_time",
            ),
        ]
        indexes = [models.Index(fields=["tenant", "expires_at"], condition=Q(decision=""), name="approval_open")]

    def __str__(self) -> str:
        return f"approval {self.pk}: {self.decision or 'open'}"


class Wait(models.Model):
    """A queued reservation's place in the queue. ``fixed`` is the waitlist of exactly its window; else any window of
    ``seconds`` between ``not_before`` and ``give_up_at`` will do. ``reason`` is why it waits, true when checked."""

    reservation = models.OneToOneField("Reservation", on_delete=models.CASCADE, related_name="wait")
    fixed = models.BooleanField(default=False)
    seconds = models.PositiveIntegerField()
    not_before = models.DateTimeField()
    give_up_at = models.DateTimeField()
    since = models.DateTimeField(default=timezone.now)
    reason = models.CharField(max_length=32, blank=True)
    evidence = models.JSONField(default=dict)
    estimated_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    offers_lapsed = models.PositiveSmallIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(seconds__gte=1, give_up_at__gt=models.F("not_before")), name="wait_is_for_something"
            )
        ]
        indexes = [models.Index(fields=["give_up_at"], name="wait_give_up")]

    def __str__(self) -> str:
        return f"wait of {self.reservation_id}"


class Series(models.Model):
    """A recurring reservation or a class: ``rule`` is an RRULE counted in local dates of ``time_zone``. Each occurrence
    lasts from ``opens`` on its date to ``closes`` ``days`` later, by the local clock. With people on the roster each of
    them gets a reservation of their own in every occurrence."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="series")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey("inventory.Pool", on_delete=models.PROTECT, related_name="+")
    profile = models.ForeignKey("inventory.Profile", on_delete=models.PROTECT, related_name="+")
    ranks = models.PositiveSmallIntegerField(default=1)
    name = models.CharField(_("name"), max_length=64)
    draft = models.JSONField(default=dict)
    rule = models.CharField(max_length=255)
    time_zone = models.CharField(max_length=64)
    first_date = models.DateField()
    opens = models.TimeField()
    closes = models.TimeField()
    days = models.PositiveSmallIntegerField(default=0)
    exceptions = ArrayField(models.DateField(), default=list)
    roster = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "series"

    was_booked_before = False  # not of the row: whether a key that had been used led to it again

    def __str__(self) -> str:
        return self.name
