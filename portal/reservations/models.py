"""Reservations and leases. The database holds the promise that no slice is ever booked twice."""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, IntegerRangeField, RangeOperators
from django.db import models
from django.db.models import Deferrable, F, Func, Q
from django.db.models.fields.json import JSONField
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class State(models.TextChoices):
    """Of a reservation: waits for approval, waits for a place, has one, runs, and the ends."""

    REQUESTED = "requested", _("requested")
    QUEUED = "queued", _("queued")
    CONFIRMED = "confirmed", _("confirmed")
    RUNNING = "running", _("running")
    ENDED = "ended", _("ended")
    REFUSED = "refused", _("refused")
    CANCELLED = "cancelled", _("cancelled")


class EndReason(models.TextChoices):
    COMPLETED = "completed", _("completed")
    RELEASED = "released", _("released early")
    DISPLACED = "displaced", _("displaced")
    NO_SHOW = "no_show", _("not started")
    FAILED = "failed", _("failed")
    NODE_LOST = "node_lost", _("node lost")


class LeaseState(models.TextChoices):
    PLANNED = "planned", _("planned")
    STARTING = "starting", _("starting")
    ACTIVE = "active", _("active")
    STOPPING = "stopping", _("stopping")
    ENDED = "ended", _("ended")
    FAILED = "failed", _("failed")


LIVE = [LeaseState.PLANNED, LeaseState.STARTING, LeaseState.ACTIVE, LeaseState.STOPPING]
OPEN = [State.CONFIRMED, State.RUNNING]


class IsFinite(Func):
    function = "isfinite"
    arity = 1
    output_field = models.BooleanField()


class Lower(Func):
    function = "lower"
    arity = 1
    output_field = models.DateTimeField()


class Upper(Func):
    function = "upper"
    arity = 1
    output_field = models.DateTimeField()


def _window_is_real(name: str) -> models.CheckConstraint:
    """Without it an empty range slips through an exclusion constraint; upper_inf() does not catch 'infinity', nor
    isfinite() a bound that is missing (it answers NULL, which a CHECK lets pass)."""
    bounded = Q(during__isempty=False, during__lower_inf=False, during__upper_inf=False)
    finite = Q(IsFinite(Lower(F("during")))) & Q(IsFinite(Upper(F("during"))))
    return models.CheckConstraint(condition=bounded & finite, name=name)


class Reservation(models.Model):
    """A claim of a tenant: profile x ranks, a window, a workload. ``weight`` is that of one rank, copied at booking."""

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
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    running_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            _window_is_real("reservation_window_is_real"),
            models.CheckConstraint(condition=Q(state__in=State.values), name="reservation_state_known"),
            models.CheckConstraint(condition=Q(ranks__range=(1, 1024)), name="reservation_ranks_in_range"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="reservation_weighs_something"),
            models.CheckConstraint(
                condition=(Q(state=State.ENDED) & ~Q(end_reason="")) | (~Q(state=State.ENDED) & Q(end_reason="")),
                name="reservation_end_has_a_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "state"], name="reservation_tenant_state"),
            models.Index(fields=["owner", "state"], name="reservation_owner_state"),
        ]

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


class Lease(models.Model):
    """One rank of a reservation, bound to a span of slices on one GPU for the window."""

    reservation = models.ForeignKey(Reservation, on_delete=models.PROTECT, related_name="leases")
    rank = models.PositiveSmallIntegerField()
    gpu = models.ForeignKey("inventory.Gpu", on_delete=models.PROTECT, related_name="leases")
    span = IntegerRangeField()
    during = DateTimeRangeField()
    state = models.CharField(max_length=16, choices=LeaseState.choices, default=LeaseState.PLANNED)
    # Set for a profile of which a GPU takes only one although spans would allow more, such as 1g.10gb+me.
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

    class Meta:
        ordering = ["reservation_id", "rank"]
        constraints = [
            _window_is_real("lease_window_is_real"),
            models.CheckConstraint(
                condition=Q(span__isempty=False) & Q(span__startswith__gte=0), name="lease_span_is_real"
            ),
            models.CheckConstraint(condition=Q(state__in=LeaseState.values), name="lease_state_known"),
            models.UniqueConstraint(
                fields=["reservation", "rank"], condition=Q(state__in=LIVE), name="lease_one_live_per_rank"
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
