"""What requests may say. Every field is listed and bounded; an unknown one is refused, lest a typo books a default."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from portal.api.fields import CountField, IdField, InstantField
from portal.audit.actions import GROUPS
from portal.audit.origin import Via
from portal.notices.models import Kind
from portal.reservations.models import State
from portal.workloads.models import MOST_RESTARTS, RankLoss
from scheduler.placement.defragment import MORE_MOST

MOST_COUNT = 2**31 - 1


class StrictSerializer(serializers.Serializer):
    default_error_messages = {"unknown": _("There is no such field.")}

    def to_internal_value(self, data: Any) -> Any:
        known = super().to_internal_value(data)
        unknown = [str(name)[:64] for name in data if name not in self.fields]
        if unknown:
            raise serializers.ValidationError({name: [self.error_messages["unknown"]] for name in unknown[:10]})
        return known


class WorkloadAsked(StrictSerializer):
    name = serializers.CharField(max_length=64)
    image = serializers.CharField(max_length=512, required=False, default="", allow_blank=True)
    command = serializers.ListField(child=serializers.CharField(max_length=4096, trim_whitespace=False), max_length=64)
    environment = serializers.DictField(
        child=serializers.CharField(max_length=8192, trim_whitespace=False, allow_blank=True),
        required=False,
        default=dict,
    )
    grace_seconds = serializers.IntegerField(min_value=0, max_value=600, required=False, default=30)
    rank_loss = serializers.ChoiceField(
        choices=RankLoss.choices, required=False, default=RankLoss.END,
        help_text="for several whole GPUs: whether the group ends or starts again when a rank is lost")
    restarts_most = serializers.IntegerField(min_value=0, max_value=MOST_RESTARTS, required=False, default=0)

    def validate_environment(self, environment: dict) -> dict:
        if len(environment) > 256:
            raise serializers.ValidationError(_("At most 256 variables."))
        if not all(name.isascii() and name.isprintable() for name in environment):
            raise serializers.ValidationError(_("Names of variables use A–Z, 0–9 and _."))
        return environment


class AvailabilityAsked(StrictSerializer):
    tenant = IdField()
    pool = IdField()
    profile = serializers.CharField(max_length=64)
    ranks = CountField(min_value=-MOST_COUNT, max_value=MOST_COUNT, required=False, default=1)
    start = InstantField()
    end = InstantField()


class ReservationAsked(AvailabilityAsked):
    """A window from ``start`` to ``end``; or ``seconds``, to start as soon as possible: that is queued where there is
    no room yet. With ``waitlist`` a taken window is waited for. What runs is a ``workload`` or a ``template`` of the
    tenant. ``owner`` is for leads who act for a member.
    """

    start = InstantField(required=False)
    end = InstantField(required=False)
    seconds = serializers.IntegerField(
        min_value=1, max_value=MOST_COUNT, required=False, help_text="Without start and end: how long it is to run."
    )
    not_before = InstantField(required=False)
    give_up_at = InstantField(required=False)
    waitlist = serializers.BooleanField(
        required=False, default=False, help_text="Wait for exactly this window where it is taken."
    )
    node = IdField(required=False, help_text="No other node will do, and it stays there.")
    together = serializers.BooleanField(
        required=False, help_text="Whether its ranks work as one group. Left out: several whole GPUs do."
    )
    owner = IdField(required=False)
    template = IdField(required=False)
    name = serializers.CharField(max_length=64, required=False, default="", allow_blank=True)
    workload = WorkloadAsked(required=False)

    def validate(self, asked: dict) -> dict:
        if ("workload" in asked) == ("template" in asked):
            raise serializers.ValidationError(_("Give either a workload or a template."))
        missing = [name for name in ("start", "end") if name not in asked]
        if "seconds" not in asked and missing:
            raise serializers.ValidationError({name: [_("This field is required.")] for name in missing})
        if "seconds" in asked and (len(missing) < 2 or asked["waitlist"]):
            raise serializers.ValidationError({"seconds": [_("Give either a window or how long it is to run.")]})
        if "seconds" in asked or asked["waitlist"]:
            placed = [name for name in ("node", "together") if name in asked]
            if placed:
                text = _("This goes with a window that is not waited for.")
                raise serializers.ValidationError({name: [text] for name in placed})
        if "seconds" not in asked and ("not_before" in asked or "give_up_at" in asked):
            raise serializers.ValidationError(_("not_before and give_up_at go with seconds."))
        return asked


class FragmentationAsked(StrictSerializer):
    """Without a window the next hour is looked at."""

    start = InstantField(required=False)
    end = InstantField(required=False)
    profile = serializers.CharField(max_length=64, required=False)
    more = CountField(min_value=1, max_value=MORE_MOST, required=False, default=1)

    def validate(self, data: dict) -> dict:
        if ("start" in data) != ("end" in data):
            raise serializers.ValidationError(_("A window needs a start and an end."))
        return data


class FreeAsked(StrictSerializer):
    """Over ``[start, end)`` every profile of the pool."""

    start = InstantField()
    end = InstantField()


class FreeOverTimeAsked(StrictSerializer):
    profile = serializers.CharField(max_length=64)
    since = InstantField()
    hours = serializers.IntegerField(min_value=1, max_value=168, required=False, default=48)
    step_minutes = serializers.IntegerField(min_value=5, max_value=240, required=False, default=30)


class ReservationsAsked(serializers.Serializer):
    state = serializers.ChoiceField(choices=State.choices, required=False)
    tenant = IdField(required=False, help_text="This tenant and everything below it.")
    pool = IdField(required=False)
    mine = serializers.BooleanField(required=False, default=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False)
    cursor = serializers.CharField(max_length=500, required=False)


class NoticesAsked(serializers.Serializer):
    unread = serializers.BooleanField(required=False, default=False, help_text="Only what was not read.")
    kind = serializers.ChoiceField(choices=Kind.choices, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False)
    cursor = serializers.CharField(max_length=500, required=False)


class AuditAsked(serializers.Serializer):
    """``[since, until)``."""

    since = InstantField(required=False)
    until = InstantField(required=False)
    actor = IdField(required=False, help_text="Who did it.")
    group = serializers.ChoiceField(
        choices=list(GROUPS), required=False, help_text="The part of an action before its dot."
    )
    action = serializers.CharField(max_length=64, required=False)
    tenant = IdField(required=False, help_text="This tenant and everything below it.")
    subject = serializers.CharField(max_length=128, required=False, help_text="Part of what it was about.")
    via = serializers.ChoiceField(choices=Via.choices, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False)
    cursor = serializers.CharField(max_length=500, required=False)


class LogAsked(StrictSerializer):
    rank = serializers.IntegerField(min_value=0, max_value=1023, required=False, default=0)


class UsageAsked(StrictSerializer):
    """Whole days of the tenant's zone, both included."""

    tenant = IdField()
    since = serializers.DateField()
    until = serializers.DateField()
