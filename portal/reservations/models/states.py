"""The states of reservations and leases, and the marks of a real window."""

from django.db import models
from django.db.models import F, Func, Q
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
# What serves its rank; one that is stopping still holds its span, beside the one that took its place after a move.
BOUND = [LeaseState.PLANNED, LeaseState.STARTING, LeaseState.ACTIVE]
# The end reason of a lease whose rank was given another place: it says nothing about how the reservation ended.
MOVED = "moved"
# That of a lease whose rank begins again in the same place once it is free; it counts until then.
RESTARTED = "restarted"
# What quotas and shares count. What a move left behind keeps its span until it is free, but its rank counts once.
COUNTED = Q(state__in=LIVE) & ~Q(end_reason=MOVED)
OPEN = [State.CONFIRMED, State.RUNNING]
UNDER_WAY = [State.REQUESTED, State.QUEUED, State.CONFIRMED, State.RUNNING]


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


def window_is_real(name: str) -> models.CheckConstraint:
    """Without it an empty range slips through an exclusion constraint; upper_inf() does not catch 'infinity', nor
    isfinite() a bound that is missing (it answers NULL, which a CHECK lets pass)."""
    bounded = Q(during__isempty=False, during__lower_inf=False, during__upper_inf=False)
    finite = Q(IsFinite(Lower(F("during")))) & Q(IsFinite(Upper(F("during"))))
    return models.CheckConstraint(condition=bounded & finite, name=name)
