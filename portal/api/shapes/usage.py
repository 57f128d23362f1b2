"""What a tenant reserved, ran and used: the numbers of the usage page."""

from rest_framework import serializers


class FiguresShape(serializers.Serializer):
    """Weighted slice-seconds. ``used`` and ``idle`` are null where nothing could be measured."""

    reserved = serializers.IntegerField()
    committed = serializers.IntegerField()
    running = serializers.IntegerField()
    used = serializers.IntegerField(allow_null=True)
    idle = serializers.IntegerField(allow_null=True)
    unmeasured = serializers.IntegerField()


class DayShape(serializers.Serializer):
    date = serializers.DateField()
    figures = FiguresShape()


class UsageRowShape(serializers.Serializer):
    """``id`` is that of the person or of the reservation."""

    id = serializers.IntegerField(source="key")
    name = serializers.CharField(source="label")
    figures = FiguresShape()
    released = serializers.IntegerField()
    never_started = serializers.IntegerField()


class UsageShape(serializers.Serializer):
    tenant = serializers.IntegerField()
    since = serializers.DateField()
    until = serializers.DateField()
    time_zone = serializers.CharField()
    total = FiguresShape()
    by_day = DayShape(many=True)
    by_member = UsageRowShape(many=True)
    by_reservation = UsageRowShape(many=True)
