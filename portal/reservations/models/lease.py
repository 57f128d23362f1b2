"""Leases. The database holds the promise that no slice is ever booked twice."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, IntegerRangeField, RangeOperators
from django.db import models
from django.db.models import Deferrable, Q

from portal.reservations.models.reservation import Reservation
from portal.reservations.models.states import BOUND, LIVE, LeaseState, Lower, window_is_real


class Lease(models.Model):
    """One rank of a reservation, bound to a span of slices on one GPU for the window."""

    reservation = models.ForeignKey(Reservation, on_delete=models.PROTECT, related_name="leases")
    rank = models.PositiveSmallIntegerField()
    gpu = models.ForeignKey("inventory.Gpu", on_delete=models.PROTECT, related_name="leases")
    span = IntegerRangeField()
    during = DateTimeRangeField()
    state = models.CharField(max_length=16, choices=LeaseState.choices, default=LeaseState.PLANNED)
    # Set where a GPU takes only one although spans would allow more: the same for all with media engines, 1g.10gb+me or
    # 2g.12gb+me.
    only_one = models.CharField(max_length=64, null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    frozen_at = models.DateTimeField(null=True, blank=True)
    starting_at = models.DateTimeField(null=True, blank=True)
    active_at = models.DateTimeField(null=True, blank=True)
    stopping_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # The node's generation from which on it is not to run: an agent that has observed it and never started it is done.
    withdrawn_generation = models.BigIntegerField(null=True, blank=True)
    mig_uuid = models.CharField(max_length=64, blank=True)
    end_reason = models.CharField(max_length=32, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    # The transaction that last changed what it holds; kept by the database, for pictures of the pool.
    changed_in = models.BigIntegerField(default=0, db_default=0, editable=False, db_index=True)

    class Meta:
        ordering = ["reservation_id", "rank"]
        constraints = [
            window_is_real("lease_window_is_real"),
            models.CheckConstraint(
                condition=Q(span__isempty=False) & Q(span__startswith__gte=0), name="lease_span_is_real"
            ),
            models.CheckConstraint(condition=Q(state__in=LeaseState.values), name="lease_state_known"),
            models.UniqueConstraint(
                fields=["reservation", "rank"], condition=Q(state__in=BOUND), name="lease_one_live_per_rank"
            ),
            ExclusionConstraint(
                name="lease_slices_never_shared",
                expressions=[
                    ("gpu", RangeOperators.EQUAL),
                    ("span", RangeOperators.OVERLAPS),
                    ("during", RangeOperators.OVERLAPS),
                ],
                condition=Q(state__in=LIVE),
                deferrable=Deferrable.IMMEDIATE,
            ),
            ExclusionConstraint(
                name="lease_only_one_of_its_kind",
                expressions=[
                    ("gpu", RangeOperators.EQUAL),
                    ("only_one", RangeOperators.EQUAL),
                    ("during", RangeOperators.OVERLAPS),
                ],
                condition=Q(state__in=LIVE) & Q(only_one__isnull=False),
                deferrable=Deferrable.IMMEDIATE,
            ),
        ]
        indexes = [
            models.Index(fields=["state", "frozen_at"], name="lease_state_frozen"),
            models.Index(
                Lower("during"), condition=Q(state=LeaseState.PLANNED, frozen_at__isnull=True), name="lease_to_freeze"
            ),
        ]

    def __str__(self) -> str:
        return f"R-{self.reservation_id} rank {self.rank}"


class LeaseLog(models.Model):
    """The last 64 kB of a workload's output, kept when its lease ends."""

    lease = models.OneToOneField(Lease, on_delete=models.CASCADE, related_name="log")
    tail = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"log of {self.lease}"
