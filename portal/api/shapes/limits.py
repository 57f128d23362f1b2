"""What the API says about quotas and policies, and what it takes."""

from typing import Any

from rest_framework import serializers

from portal.api.asking import StrictSerializer
from portal.api.fields import IdField, InstantField
from portal.quotas.hours import Hours
from portal.quotas.models import Quota
from portal.quotas.policies import FIELDS, EffectivePolicy
from portal.quotas.policy_changes import LONGEST_SECONDS
from portal.quotas.services import MOST_SLICE_SECONDS, MOST_WEIGHT
from portal.quotas.words import clock
from portal.reservations.uncovered import Uncovered

CLOCK = r"^([01]\d|2[0-3]):[0-5]\d$|^24:00$"


class HoursShape(StrictSerializer):
    """Hours of the week in the tenant's time zone. Days are 1 (Monday) to 7; the day's end is 24:00."""

    weekdays = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=7), min_length=1, max_length=7)
    opens = serializers.RegexField(CLOCK)
    closes = serializers.RegexField(CLOCK)


class QuotaAsked(StrictSerializer):
    """``id`` is the row to change; without it the one of the same dates is, or a new one is made. ``hours`` left out
    leaves them as they are, an empty list is always open."""

    id = IdField(required=False)
    guaranteed = serializers.IntegerField(min_value=0, max_value=MOST_WEIGHT)
    limit = serializers.IntegerField(min_value=0, max_value=MOST_WEIGHT)
    valid_from = InstantField(required=False, allow_null=True, default=None)
    valid_until = InstantField(required=False, allow_null=True, default=None)
    hours = HoursShape(many=True, required=False)


class QuotaShape(serializers.Serializer):
    """Weights that the tenant's subtree may hold at one moment; null dates are without beginning or end."""

    id = serializers.IntegerField()
    pool = serializers.IntegerField()
    guaranteed = serializers.IntegerField()
    limit = serializers.IntegerField()
    valid_from = serializers.DateTimeField(allow_null=True)
    valid_until = serializers.DateTimeField(allow_null=True)
    hours = HoursShape(many=True)


class UncoveredShape(serializers.Serializer):
    """A future reservation that the change no longer covers. It stays until somebody changes it."""

    reservation = serializers.IntegerField()
    reason = serializers.CharField()


class QuotaChangedShape(serializers.Serializer):
    quota = QuotaShape()
    uncovered = UncoveredShape(many=True)


class PolicyAsked(StrictSerializer):
    """The whole policy of the tenant itself: what is left out or null is inherited."""

    longest_window_seconds = serializers.IntegerField(
        min_value=0, max_value=LONGEST_SECONDS, allow_null=True, default=None)
    book_ahead_seconds = serializers.IntegerField(min_value=0, max_value=LONGEST_SECONDS, allow_null=True, default=None)
    most_weight_each = serializers.IntegerField(min_value=0, max_value=MOST_WEIGHT, allow_null=True, default=None)
    pool_ids = serializers.ListField(child=IdField(), max_length=100, allow_null=True, default=None)
    profiles = serializers.ListField(
        child=serializers.CharField(max_length=64), max_length=100, allow_null=True, default=None)
    images = serializers.ListField(
        child=serializers.CharField(max_length=255), max_length=100, allow_null=True, default=None)
    approval_above_slice_seconds = serializers.IntegerField(
        min_value=0, max_value=MOST_SLICE_SECONDS, allow_null=True, default=None)
    protected_seconds = serializers.IntegerField(min_value=0, max_value=LONGEST_SECONDS, allow_null=True, default=None)


class PolicyShape(serializers.Serializer):
    """``own`` is what is set for the tenant itself, ``effective`` what counts, and ``origins`` the tenant of each."""

    own = PolicyAsked()
    effective = PolicyAsked()
    origins = serializers.DictField(child=serializers.IntegerField())


class PolicyChangedShape(PolicyShape):
    uncovered = UncoveredShape(many=True)


def quota_shown(quota: Quota) -> dict[str, Any]:
    return {
        "id": quota.pk, "pool": quota.pool_id, "guaranteed": quota.guaranteed, "limit": quota.limit,
        "valid_from": quota.valid.lower, "valid_until": quota.valid.upper,
        "hours": [
            {
                "weekdays": [day + 1 for day in range(7) if one.weekdays >> day & 1],
                "opens": clock(one.opens), "closes": clock(one.closes),
            }
            for one in quota.open_hours
        ],
    }  # fmt: skip


def hours_asked(hours: list[dict[str, Any]]) -> list[Hours]:
    return [
        Hours(sum({1 << (day - 1) for day in one["weekdays"]}), _minutes(one["opens"]), _minutes(one["closes"]))
        for one in hours
    ]


def _minutes(clock_time: str) -> int:
    return int(clock_time[:2]) * 60 + int(clock_time[3:])


def policy_shown(own: dict[str, Any], policy: EffectivePolicy) -> dict[str, Any]:
    effective = {name: getattr(policy, name) for name in FIELDS}
    for name in ("pool_ids", "profiles"):
        effective[name] = None if effective[name] is None else sorted(effective[name])
    return {
        "own": own, "effective": effective,
        "origins": {name: tenant.pk for name, tenant in policy.origins.items()},
    }  # fmt: skip


def uncovered_shown(uncovered: list[Uncovered]) -> list[dict[str, Any]]:
    return [{"reservation": one.reservation.pk, "reason": one.reason} for one in uncovered]
