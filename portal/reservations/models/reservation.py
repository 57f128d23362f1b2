"""Reservations: what a tenant claims."""

from django.conf import settings
from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from portal.reservations.models.states import UNDER_WAY, EndReason, State, window_is_real


class Reservation(models.Model):
    """A claim of a tenant: profile x ranks, a window, a workload. ``weight`` is that of one rank, copied at booking.

    A requested reservation holds its place until it is decided, a queued one only while it is offered one: then
    ``hold_expires_at`` is set. The window of a queued one without an offer is an estimate. ``borrowed`` is held above
    the tenant's guarantee and may be displaced.
    """

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="reservations")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="reservations")
    pool = models.ForeignKey("inventory.Pool", on_delete=models.PROTECT, related_name="reservations")
    profile = models.ForeignKey("inventory.Profile", on_delete=models.PROTECT, related_name="+")
    workload = models.OneToOneField("workloads.Workload", on_delete=models.PROTECT, related_name="reservation")
    ranks = models.PositiveSmallIntegerField(default=1)
    weight = models.PositiveSmallIntegerField()
    during = DateTimeRangeField()
    state = models.CharField(max_length=16, choices=State.choices)
    end_reason = models.CharField(max_length=16, choices=EndReason.choices, blank=True)
    end_detail = models.CharField(max_length=500, blank=True)
    borrowed = models.BooleanField(default=False)
    # Where all its ranks are to sit, if somebody said so; they are not moved from there.
    pinned_node = models.ForeignKey(
        "inventory.Node", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    # Whether its ranks work as one group; None: nobody said, and several whole GPUs do.
    together = models.BooleanField(null=True, blank=True)
    hold_expires_at = models.DateTimeField(null=True, blank=True)
    approval = models.ForeignKey(
        "Approval", null=True, blank=True, on_delete=models.PROTECT, related_name="reservations")
    series = models.ForeignKey("Series", null=True, blank=True, on_delete=models.PROTECT, related_name="reservations")
    occurrence = models.DateField(null=True, blank=True)
    continues = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="continued_by")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    running_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # Counted by the database whenever what a calendar shows of it changes; never written here.
    changes = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    changed_at = models.DateTimeField(default=timezone.now, db_default=Now(), editable=False)
    # The transaction that last changed how its leases count; kept by the database, for pictures of the pool.
    changed_in = models.BigIntegerField(default=0, db_default=0, editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            window_is_real("reservation_window_is_real"),
            models.CheckConstraint(condition=Q(state__in=State.values), name="reservation_state_known"),
            models.CheckConstraint(condition=Q(ranks__range=(1, 1024)), name="reservation_ranks_in_range"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="reservation_weighs_something"),
            models.CheckConstraint(
                condition=(Q(state=State.ENDED) & ~Q(end_reason="")) | (~Q(state=State.ENDED) & Q(end_reason="")),
                name="reservation_end_has_a_reason",
            ),
            models.UniqueConstraint(
                fields=["series", "occurrence", "owner"], condition=Q(state__in=UNDER_WAY),
                name="reservation_once_per_occurrence_and_person"),
            models.CheckConstraint(
                condition=~Q(state=State.REQUESTED) | Q(hold_expires_at__isnull=False, approval__isnull=False),
                name="reservation_request_expires",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "state"], name="reservation_tenant_state"),
            models.Index(fields=["owner", "state"], name="reservation_owner_state"),
            models.Index(
                fields=["hold_expires_at"], condition=Q(hold_expires_at__isnull=False), name="reservation_holds"),
            models.Index(
                fields=["pool", "id"], condition=Q(state=State.QUEUED), name="reservation_queue_of_pool"),
            models.Index(fields=["changed_in"], condition=Q(changed_in__gt=0), name="reservation_changed_in"),
        ]

    was_booked_before = False  # not of the row: whether a key that had been used led to it again

    def __str__(self) -> str:
        return self.number

    @property
    def number(self) -> str:
        """How people call it, and its part of the URL: R-20418."""
        return f"R-{self.pk}"

    @property
    def starts_at(self):
        return self.during.lower

    @property
    def ends_at(self):
        return self.during.upper

    @property
    def planned_seconds(self) -> int:
        return int((self.during.upper - self.during.lower).total_seconds())

    @property
    def price_slice_seconds(self) -> int:
        """What the whole window costs in weighted slice-seconds."""
        return self.weight * self.ranks * self.planned_seconds
