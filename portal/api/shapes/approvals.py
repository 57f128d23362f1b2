"""Questions to the leads as the API tells them."""

from rest_framework import serializers

from portal.api.shapes.reservations import NamedShape
from portal.reservations.models import Decision


class AboutShape(serializers.Serializer):
    """One reservation that hangs on the answer, or did."""

    id = serializers.IntegerField(source="pk")
    number = serializers.CharField()
    state = serializers.CharField()
    owner = NamedShape()
    pool = NamedShape()
    profile = serializers.CharField(source="profile.name")
    ranks = serializers.IntegerField()
    start = serializers.DateTimeField(source="during.lower")
    end = serializers.DateTimeField(source="during.upper")
    borrowed = serializers.BooleanField()


class ApprovalShape(serializers.Serializer):
    """Amounts are weighted slice-seconds; ``decision`` is empty while the question is open."""

    id = serializers.IntegerField(source="pk")
    tenant = NamedShape()
    asked_by = NamedShape()
    asked_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    price_slice_seconds = serializers.IntegerField()
    threshold_slice_seconds = serializers.IntegerField()
    decision = serializers.ChoiceField(choices=Decision.choices, allow_blank=True)
    decided_by = NamedShape(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField(allow_blank=True)
    reservations = AboutShape(many=True)
