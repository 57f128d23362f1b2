"""Series as the API tells them. Dates and hours are local to the series, windows are in UTC."""

from rest_framework import serializers

from portal.api.shapes.reservations import NamedShape, ReasonShape
from portal.reservations.models import State


class PartShape(serializers.Serializer):
    """One reservation of a series."""

    id = serializers.IntegerField(source="pk")
    number = serializers.CharField()
    occurrence = serializers.DateField()
    owner = NamedShape()
    start = serializers.DateTimeField(source="during.lower")
    end = serializers.DateTimeField(source="during.upper")
    state = serializers.ChoiceField(choices=State.choices)
    approval = serializers.IntegerField(source="approval_id", allow_null=True)


class SeriesShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    tenant = NamedShape()
    owner = NamedShape()
    pool = NamedShape()
    profile = serializers.CharField(source="profile.name")
    ranks = serializers.IntegerField()
    rule = serializers.CharField()
    time_zone = serializers.CharField()
    first_date = serializers.DateField()
    opens = serializers.TimeField()
    closes = serializers.TimeField()
    days = serializers.IntegerField()
    exceptions = serializers.ListField(child=serializers.DateField())
    roster = NamedShape(many=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="when the rest of it was cancelled")


class SeriesWholeShape(SeriesShape):
    reservations = PartShape(many=True)


class FitShape(serializers.Serializer):
    date = serializers.DateField(source="occurrence.date")
    start = serializers.DateTimeField(source="occurrence.during.lower", allow_null=True, default=None)
    end = serializers.DateTimeField(source="occurrence.during.upper", allow_null=True, default=None)
    fits = serializers.BooleanField()
    skipped = serializers.BooleanField()
    reason = ReasonShape(source="refusal", allow_null=True)
    price_slice_seconds = serializers.IntegerField()


class SeriesPreviewShape(serializers.Serializer):
    occurrences = FitShape(source="fits", many=True)
    price_slice_seconds = serializers.IntegerField(help_text="of all that fit, for everybody")
    approval_above_slice_seconds = serializers.IntegerField(
        source="threshold", allow_null=True, help_text="set when a lead has to say yes to the price"
    )
    bookable_until = serializers.DateTimeField(help_text="the latest start that is taken now")
    budget_left_slice_seconds = serializers.IntegerField(
        source="budget.left", allow_null=True, default=None, help_text="after this; null: no budget binds"
    )


class SeriesAnswerShape(serializers.Serializer):
    """What was booked, or of a dry run what would fit."""

    series = SeriesWholeShape(allow_null=True)
    preview = SeriesPreviewShape(allow_null=True)
