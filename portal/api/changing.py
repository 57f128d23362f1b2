"""What requests that change a reservation, or answer a question to the leads, may say."""

from rest_framework import serializers

from portal.api.asking import StrictSerializer
from portal.api.fields import InstantField


class ChangeAsked(StrictSerializer):
    """What is left out stays as it is: a new start alone keeps the end."""

    start = InstantField(required=False)
    end = InstantField(required=False)
    name = serializers.CharField(max_length=64, required=False)


class ApprovalsAsked(StrictSerializer):
    open = serializers.BooleanField(required=False, default=True, help_text="false: those decided already, too.")
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False)
    cursor = serializers.CharField(max_length=500, required=False)


class ApproveAsked(StrictSerializer):
    note = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class RefuseAsked(StrictSerializer):
    """The note is sent to who asked."""

    note = serializers.CharField(max_length=500)
