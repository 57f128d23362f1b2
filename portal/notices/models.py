"""What people are told, what of it goes out by e-mail, and what each wants to be told that way."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Kind(models.TextChoices):
    """What a notice is about. ``templates/notices/kinds`` has the words of each, and so says which facts it knows."""

    CONFIRMED = "confirmed", _("Confirmed")
    STARTING = "starting", _("Starts soon")
    ENDING = "ending", _("Ends soon")
    CHANGED = "changed", _("Changed")
    DISPLACED = "displaced", _("Displaced")
    OFFERED = "offered", _("A place is offered")
    OFFER_LAPSED = "offer_lapsed", _("An offer has lapsed")
    APPROVED = "approved", _("Approved")
    REFUSED = "refused", _("Refused")
    APPROVAL_WANTED = "approval_wanted", _("Your approval is wanted")
    APPROVAL_EXPIRED = "approval_expired", _("Nobody has approved in time")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")
    MAINTENANCE = "maintenance", _("Maintenance")
    QUOTA_NARROWED = "quota_narrowed", _("A quota is narrower")
    GAVE_UP = "gave_up", _("A request is given up")


class Notice(models.Model):
    """One thing that one person is told. The sentence is made of ``facts`` when it is read: numbers, words as somebody
    typed them, and times as ISO 8601 under names that end in ``_at``. ``url`` is a path of the portal.

    ``once`` names what is told: the same is never told twice to the same person.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=24, choices=Kind.choices)
    reservation_id = models.BigIntegerField(null=True, blank=True)
    tenant = models.ForeignKey("tenants.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    url = models.CharField(max_length=255)
    facts = models.JSONField(default=dict)
    once = models.CharField(max_length=100, null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="notice_kind_known"),
            models.CheckConstraint(condition=Q(url__startswith="/"), name="notice_url_is_a_path"),
            models.UniqueConstraint(fields=["once", "kind", "user"], name="notice_told_once"),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_of_user_newest"),
            models.Index(fields=["user"], condition=Q(read_at__isnull=True), name="notice_unread"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to user {self.user_id}"


class DeliveryState(models.TextChoices):
    """``failed``: the mail server refused it for good. ``given_up``: tried as often as is sensible. ``dropped``: nobody
    wants it any more, since the person is disabled or what it announces is over."""

    PENDING = "pending", _("waits")
    SENT = "sent", _("sent")
    FAILED = "failed", _("refused by the mail server")
    GIVEN_UP = "given_up", _("given up")
    DROPPED = "dropped", _("dropped")


UNDELIVERED = [DeliveryState.FAILED, DeliveryState.GIVEN_UP]


class Delivery(models.Model):
    """A notice on its way by e-mail. Who works on it moves ``next_try_at`` ahead first: until then it is theirs."""

    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.CharField(max_length=8, default="email")
    address = models.EmailField(max_length=254)
    state = models.CharField(max_length=8, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(default=timezone.now)
    last_error = models.CharField(max_length=500, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["notice", "channel"], name="delivery_once_per_channel"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
            models.CheckConstraint(condition=Q(channel="email"), name="delivery_channel_known"),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.SENT, sent_at__isnull=False)
                | (~Q(state=DeliveryState.SENT) & Q(sent_at__isnull=True)),
                name="delivery_sent_has_a_time",
            ),
        ]
        indexes = [
            models.Index(fields=["next_try_at"], condition=Q(state=DeliveryState.PENDING), name="delivery_due"),
            models.Index(fields=["-id"], condition=Q(state__in=UNDELIVERED), name="delivery_undelivered"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.address}: {self.state}"


def default_leads() -> list[int]:
    """A day and a quarter of an hour, in seconds."""
    return [86400, 900]


class NoticePreference(models.Model):
    """What one person wants by e-mail, and how long before a start and an end they are reminded. Who has no row gets
    everything by e-mail and the default reminders; the inbox gets everything in any case."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notice_preference"
    )
    not_by_mail = ArrayField(models.CharField(max_length=24, choices=Kind.choices), default=list, blank=True)
    start_leads_seconds = ArrayField(models.PositiveIntegerField(), default=default_leads, blank=True)
    end_leads_seconds = ArrayField(models.PositiveIntegerField(), default=default_leads, blank=True)

    def __str__(self) -> str:
        return f"preferences of user {self.user_id}"
