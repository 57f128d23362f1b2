"""What fits in a pool as things lie and if they were packed anew, and the moves by which more would fit."""

from rest_framework import serializers

from scheduler.placement.fragmentation import Cause


class RoomShape(serializers.Serializer):
    profile = serializers.CharField(source="shape.name")
    bookable = serializers.IntegerField(help_text="how many fit for the whole window as things lie")
    if_packed = serializers.IntegerField(help_text="how many would if all that is held were packed anew")
    lost = serializers.IntegerField(help_text="the difference: what layout costs")


class PlaceShape(serializers.Serializer):
    gpu = serializers.IntegerField(source="gpu_id")
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class MoveShape(serializers.Serializer):
    """Whose lease it is, is said only of tenants that the asker may see."""

    lease = serializers.IntegerField(allow_null=True)
    reservation = serializers.IntegerField(allow_null=True)
    before = PlaceShape()
    after = PlaceShape()


class CauseShape(serializers.Serializer):
    cause = serializers.ChoiceField(choices=[(cause.value, cause.name) for cause in Cause])
    fitting = serializers.IntegerField()
    if_packed = serializers.IntegerField()


class PlanShape(serializers.Serializer):
    profile = serializers.CharField()
    asked = serializers.IntegerField()
    bookable = serializers.IntegerField()
    won = serializers.IntegerField(help_text="how many more would fit once all moves are made at once")
    moves = MoveShape(many=True)
    refusal = CauseShape(allow_null=True)


class FragmentationShape(serializers.Serializer):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    slices = serializers.IntegerField()
    free = serializers.IntegerField()
    stranded = serializers.IntegerField(help_text="free slices that no profile can take where they lie")
    profiles = RoomShape(many=True)
    plan = PlanShape(allow_null=True)
