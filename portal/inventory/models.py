"""Pools, nodes, GPUs and the profiles that agents report. No fact about a GPU model is written down here."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Pool(models.Model):
    """GPUs of one model, all with MIG on or all with MIG off, planned together. Its row is the lock of a booking.

    ``gpu_model`` and ``mig`` stay empty until the first GPU joins and decides. ``revision`` rises with every change of
    its leases or GPUs.
    """

    name = models.CharField(_("name"), max_length=64, unique=True)
    gpu_model = models.CharField(max_length=128, blank=True)
    mig = models.BooleanField(null=True)
    revision = models.BigIntegerField(default=0)
    shortest_window_seconds = models.PositiveIntegerField(_("shortest window, seconds"), default=60)
    longest_window_seconds = models.PositiveIntegerField(_("longest window, seconds"), default=7 * 86400)
    book_ahead_seconds = models.PositiveIntegerField(_("book-ahead limit, seconds"), default=60 * 86400)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(shortest_window_seconds__gte=1)
                & Q(longest_window_seconds__gte=F("shortest_window_seconds")),
                name="pool_window_limits_ordered",
            )
        ]

    def __str__(self) -> str:
        return self.name


class NodeState(models.TextChoices):
    """What the admin wants of a node; ``silent_since`` and ``degraded_reason`` say how it is."""

    READY = "ready", _("ready")
    CORDONED = "cordoned", _("cordoned")
    DRAINING = "draining", _("draining")
    MAINTENANCE = "maintenance", _("maintenance")
    RETIRED = "retired", _("retired")


class Node(models.Model):
    """A machine with an agent. Its row is the outbox: ``generation`` rises with every change of what it shall do, and
    until ``observed_generation`` has caught up the sweep keeps pushing. ``rack``: nodes of one are near each other.

    ``by_plan``: it is in maintenance because of a planned one, and returns by itself. ``drain_until``: what still runs
    on a draining node ends then. ``cluster_address`` is where ranks of a group on other nodes reach it, as it says.
    """

    name = models.CharField(_("name"), max_length=63, unique=True)
    pool = models.ForeignKey(Pool, null=True, on_delete=models.PROTECT, related_name="nodes")
    rack = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=16, choices=NodeState.choices, default=NodeState.READY)
    by_plan = models.BooleanField(default=False)
    drain_until = models.DateTimeField(null=True, blank=True)
    silent_since = models.DateTimeField(null=True, blank=True)
    degraded_reason = models.CharField(max_length=255, blank=True)
    credential_hash = models.CharField(max_length=64, blank=True)
    generation = models.BigIntegerField(default=0)
    observed_generation = models.BigIntegerField(default=0)
    boot_id = models.CharField(max_length=128, blank=True)
    agent_version = models.CharField(max_length=128, blank=True)
    driver_version = models.CharField(max_length=128, blank=True)
    engine = models.CharField(max_length=64, blank=True)
    simulated = models.BooleanField(default=False)
    cluster_address = models.CharField(max_length=255, blank=True)
    cluster_interface = models.CharField(max_length=15, blank=True)
    clock_offset_ms = models.BigIntegerField(null=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    enrolled_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=NodeState.values), name="node_state_known"),
            models.CheckConstraint(
                condition=Q(observed_generation__lte=F("generation")), name="node_observes_what_was_told"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def shown_state(self) -> str:
        """One word for people: what the admin wants, unless the node itself is worse off."""
        if self.state in (NodeState.RETIRED, NodeState.MAINTENANCE):
            return str(self.state)
        if self.enrolled_at is None:
            return "waiting"
        if self.silent_since:
            return "silent"
        if self.degraded_reason:
            return "degraded"
        return str(self.state)


class EnrolmentToken(models.Model):
    """A one-time right to join as this node; only its hash is kept."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="enrolment_tokens")
    token_hash = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"token for {self.node}"


class GpuState(models.TextChoices):
    OK = "ok", _("ok")
    FAULTY = "faulty", _("faulty")


class Gpu(models.Model):
    """A device; ``memory_slices`` is the height of its canvas, ``pool`` None when none fits its model and mode.

    ``measured``: its driver tells how busy what is leased of it is; None where the agent does not say.
    ``links``: words for the ways to other GPUs of the node by UUID, as ``GpuFact`` has them; None is unknown.
    """

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="gpus")
    pool = models.ForeignKey(Pool, null=True, on_delete=models.PROTECT, related_name="gpus")
    uuid = models.CharField(max_length=128, unique=True)
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=128)
    memory_mib = models.PositiveBigIntegerField()
    memory_slices = models.PositiveSmallIntegerField()
    compute_slices = models.PositiveSmallIntegerField()
    mig_capable = models.BooleanField()
    mig_enabled = models.BooleanField()
    measured = models.BooleanField(null=True)
    pci_bus_id = models.CharField(max_length=64, blank=True)
    links = models.JSONField(null=True, blank=True)
    state = models.CharField(max_length=16, choices=GpuState.choices, default=GpuState.OK)
    fault = models.CharField(max_length=255, blank=True)
    present = models.BooleanField(default=True)

    class Meta:
        ordering = ["node_id", "index"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=GpuState.values), name="gpu_state_known"),
            models.CheckConstraint(condition=Q(memory_slices__range=(1, 64)), name="gpu_has_slices"),
        ]
        indexes = [models.Index(fields=["pool", "node", "index"], name="gpu_of_pool")]

    def __str__(self) -> str:
        return f"{self.node} GPU {self.index}"


class Profile(models.Model):
    """A legal shape of a slice on the GPUs of one model and mode, as an agent reported it.

    ``nvml_profile_id`` is None for the whole GPU with MIG off; ``weight`` is what one counts in quota, price, budget.
    """

    gpu_model = models.CharField(max_length=128)
    mig = models.BooleanField()
    name = models.CharField(max_length=64)
    nvml_profile_id = models.PositiveSmallIntegerField(null=True)
    size = models.PositiveSmallIntegerField()
    starts = ArrayField(models.PositiveSmallIntegerField())
    compute_slices = models.PositiveSmallIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    max_count = models.PositiveSmallIntegerField()
    whole = models.BooleanField(default=False, help_text=_("Takes a GPU alone."))
    weight = models.PositiveSmallIntegerField(validators=[MinValueValidator(1)])

    class Meta:
        ordering = ["gpu_model", "size", "compute_slices", "name"]
        constraints = [
            models.UniqueConstraint(fields=["gpu_model", "mig", "name"], name="profile_name_once_per_model"),
            models.CheckConstraint(condition=Q(size__gte=1) & Q(weight__gte=1), name="profile_takes_something"),
        ]

    def __str__(self) -> str:
        return self.name


class ProfileWeight(models.Model):
    """What one of a profile counts in quota, price and budget from a moment on. ``Profile.weight`` is the newest; a
    reservation keeps the weight it was booked with, so that no old report changes."""

    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="weights")
    weight = models.PositiveSmallIntegerField(validators=[MinValueValidator(1)])
    since = models.DateTimeField(default=timezone.now)
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["profile_id", "-since", "-id"]
        constraints = [models.CheckConstraint(condition=Q(weight__gte=1), name="profile_weight_counts")]

    def __str__(self) -> str:
        return f"{self.profile}: {self.weight} since {self.since:%Y-%m-%d}"
