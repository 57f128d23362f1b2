"""Maintenance and the service of a node: what may be asked, and what is told."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from portal.api.asking import StrictSerializer
from portal.api.fields import IdField, InstantField
from portal.inventory.models import NodeState
from portal.reservations.maintenance_closing import Fate
from portal.reservations.maintenance_effects import Affected, Effect

STATES = [state for state in NodeState.values if state != NodeState.RETIRED]


class ListAsked(serializers.Serializer):
    open = serializers.BooleanField(required=False, default=False, help_text="Only what is under way or ahead.")
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False)
    cursor = serializers.CharField(max_length=500, required=False)


class WindowAsked(StrictSerializer):
    """Of a ``node``, of a ``pool``, or of everything when neither is named."""

    node = IdField(required=False)
    pool = IdField(required=False)
    start = InstantField()
    end = InstantField()

    def validate(self, asked: dict) -> dict:
        if "node" in asked and "pool" in asked:
            raise serializers.ValidationError(_("Give a node or a pool, not both."))
        return asked


class MaintenanceAsked(WindowAsked):
    reason = serializers.CharField(max_length=200, help_text="Everybody reads it.")


class EndAsked(StrictSerializer):
    end = InstantField()


class ServiceAsked(StrictSerializer):
    """``until`` is for draining: what is left then is ended."""

    state = serializers.ChoiceField(choices=STATES)
    until = InstantField(required=False)


class MaintenanceShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    node = serializers.IntegerField(source="node_id", allow_null=True)
    pool = serializers.IntegerField(source="pool_id", allow_null=True)
    start = InstantField(source="during.lower")
    end = InstantField(source="during.upper")
    stops_at = InstantField(allow_null=True, help_text="Nothing runs there from then on.")
    reason = serializers.CharField()
    started_at = InstantField(allow_null=True)
    ended_at = InstantField(allow_null=True)
    cancelled_at = InstantField(allow_null=True)


class EffectShape(serializers.Serializer):
    """What becomes of a reservation."""

    reservation = serializers.IntegerField()
    owner = serializers.IntegerField()
    tenant = serializers.IntegerField()
    fate = serializers.ChoiceField(choices=[fate.value for fate in Fate])
    ends_at = InstantField(allow_null=True, help_text="Where it is cut short.")


class PlannedShape(serializers.Serializer):
    maintenance = MaintenanceShape()
    affected = EffectShape(many=True)


class ServiceShape(serializers.Serializer):
    node = serializers.IntegerField()
    state = serializers.ChoiceField(choices=STATES)
    until = InstantField(allow_null=True)
    affected = EffectShape(many=True)


def effect_of(effect: Effect) -> dict[str, Any]:
    return {
        "reservation": effect.reservation.pk,
        "owner": effect.reservation.owner_id,
        "tenant": effect.reservation.tenant_id,
        "fate": effect.fate.value,
        "ends_at": effect.ends_at,
    }


def effects_shown(affected: Affected) -> Any:
    return EffectShape(list(map(effect_of, affected.effects)), many=True).data
