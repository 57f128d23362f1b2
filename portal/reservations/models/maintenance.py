"""Maintenance: a window in which a node, a pool or everything takes no leases."""

import datetime as dt

from django.conf import settings
from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal.reservations.models.states import window_is_real


class Maintenance(models.Model):
    """Of one node, of one pool, or of everything when neither is named. It is over at its end, or when it is ended or
    cancelled before. Nothing runs there from ``stops_at`` on (None: its start): who runs when it is planned is
    given notice."""

    node = models.ForeignKey("inventory.Node", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey("inventory.Pool", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    during = DateTimeRangeField(_("window"))
    stops_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=200)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    # Counted by the database whenever what a calendar shows of it changes; never written here.
    changes = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    changed_at = models.DateTimeField(default=timezone.now, db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            window_is_real("maintenance_window_is_real"),
            models.CheckConstraint(
                condition=Q(node__isnull=True) | Q(pool__isnull=True), name="maintenance_of_one_thing"
            ),
        ]
        indexes = [
            models.Index(
                fields=["node", "pool"], condition=Q(ended_at__isnull=True, cancelled_at__isnull=True),
                name="maintenance_open")
        ]

    def __str__(self) -> str:
        return f"maintenance of {self.node or self.pool or 'everything'}"

    @property
    def starts_at(self) -> dt.datetime:
        return self.during.lower

    @property
    def ends_at(self) -> dt.datetime:
        return self.during.upper

    @property
    def is_open(self) -> bool:
        """Neither over nor cancelled; it may not have begun."""
        return self.ended_at is None and self.cancelled_at is None
