"""Pools with their profiles, and nodes with their GPUs and what is held on them."""

from rest_framework import serializers

from portal.api.asking import StrictSerializer
from portal.inventory.models import GpuState, NodeState


class ProfileShape(serializers.Serializer):
    name = serializers.CharField()
    size = serializers.IntegerField(help_text="memory slices")
    starts = serializers.ListField(child=serializers.IntegerField(), help_text="slices at which it may begin")
    compute_slices = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    max_count = serializers.IntegerField()
    weight = serializers.IntegerField(help_text="what one counts in quota, price and budget")
    whole = serializers.BooleanField()


class PoolShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    gpu_model = serializers.CharField()
    mig = serializers.BooleanField(allow_null=True)
    shortest_window_seconds = serializers.IntegerField()
    longest_window_seconds = serializers.IntegerField()
    book_ahead_seconds = serializers.IntegerField()
    profiles = ProfileShape(many=True)


class HeldShape(serializers.Serializer):
    """A span that is taken now. Whose it is, is said only of tenants that the asker may see."""

    start = serializers.IntegerField()
    end = serializers.IntegerField()
    state = serializers.CharField()
    until = serializers.DateTimeField()
    reservation = serializers.IntegerField(allow_null=True)
    tenant = serializers.IntegerField(allow_null=True)


class GpuShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    model = serializers.CharField()
    pool = serializers.IntegerField(source="pool_id", allow_null=True)
    memory_mib = serializers.IntegerField()
    memory_slices = serializers.IntegerField()
    compute_slices = serializers.IntegerField()
    mig = serializers.BooleanField(source="mig_enabled")
    state = serializers.ChoiceField(choices=GpuState.choices)
    fault = serializers.CharField()
    present = serializers.BooleanField()
    links = serializers.DictField(
        child=serializers.CharField(), allow_null=True,
        help_text="the way to other GPUs of the node, by uuid: NV4 is four NVLinks, else PIX, PXB, PHB, NODE, SYS",
    )
    slices_held = serializers.IntegerField()
    held = HeldShape(many=True)


class NodeShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    pool = serializers.IntegerField(source="pool_id", allow_null=True)
    rack = serializers.CharField(help_text="rack or network domain")
    state = serializers.ChoiceField(choices=NodeState.choices)
    shown_state = serializers.CharField()
    silent_since = serializers.DateTimeField(allow_null=True)
    degraded_reason = serializers.CharField()
    last_seen_at = serializers.DateTimeField(allow_null=True)
    simulated = serializers.BooleanField()
    gpus = GpuShape(many=True)


class RackAsked(StrictSerializer):
    rack = serializers.CharField(max_length=64, allow_blank=True)


class RackShape(serializers.Serializer):
    node = serializers.IntegerField()
    rack = serializers.CharField()
