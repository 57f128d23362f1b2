"""Addresses from which a calendar program reads reservations without a session."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class FeedKind(models.TextChoices):
    USER = "user", _("own reservations")
    TENANT = "tenant", _("reservations of a tenant")
    NODE = "node", _("reservations on a node")


class CalendarFeed(models.Model):
    """Shows what its owner may see, asked again at every read. Only the hash of the address is kept.

    ``sign_in_round`` is the owner's when it was made: it dies for good when they are disabled, as their sessions do.
    ``content_tag`` and ``content_changed_at`` say what the last reader got, and since when it is that.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="calendar_feeds")
    kind = models.CharField(max_length=8, choices=FeedKind.choices)
    tenant = models.ForeignKey("tenants.Tenant", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    node = models.ForeignKey("inventory.Node", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    token_hash = models.CharField(max_length=64, unique=True)
    sign_in_round = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)
    last_read_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    content_tag = models.CharField(max_length=64, blank=True)
    content_changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="user", tenant__isnull=True, node__isnull=True)
                | Q(kind="tenant", tenant__isnull=False, node__isnull=True)
                | Q(kind="node", tenant__isnull=True, node__isnull=False),
                name="calendar_feed_of_one_thing",
            ),
            models.UniqueConstraint(
                fields=["owner", "kind", "tenant", "node"],
                condition=Q(revoked_at__isnull=True),
                nulls_distinct=False,
                name="calendar_feed_one_live_each",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} feed of {self.owner}"
