"""An entry of the audit trail as the API tells it."""

from rest_framework import serializers

from portal.api.shapes.reservations import NamedShape
from portal.audit.origin import Via


class AuditEntryShape(serializers.Serializer):
    """``actor`` null is Berth itself. ``position`` and ``hash`` are its place in the chain, null until it is sealed."""

    id = serializers.IntegerField(source="pk")
    at = serializers.DateTimeField()
    actor = NamedShape(allow_null=True)
    tenant = NamedShape(allow_null=True)
    action = serializers.CharField()
    subject = serializers.CharField()
    before = serializers.DictField(help_text="only what changed")
    after = serializers.DictField(help_text="only what changed")
    via = serializers.ChoiceField(choices=Via.choices, allow_blank=True)
    address = serializers.CharField(allow_blank=True, help_text="of the client on the network")
    position = serializers.SerializerMethodField()
    hash = serializers.SerializerMethodField()

    def get_position(self, entry) -> int | None:
        seal = getattr(entry, "seal", None)
        return seal.position if seal else None

    def get_hash(self, entry) -> str | None:
        seal = getattr(entry, "seal", None)
        return seal.hash if seal else None
