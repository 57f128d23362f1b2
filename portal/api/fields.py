"""Fields of requests: bounded, so that nothing typed can reach the database as an error."""

import datetime as dt
import re
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

PLAIN_NUMBER = re.compile(r"-?[0-9]{1,20}")
LARGEST_ID = 2**63 - 1
EARLIEST, LATEST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(9000, 1, 1, tzinfo=dt.UTC)


class IdField(serializers.IntegerField):
    def __init__(self, **options: Any):
        super().__init__(min_value=1, max_value=LARGEST_ID, **options)


class CountField(serializers.IntegerField):
    """A whole number as a program writes it: what Python would forgive ("7 ", "1_0", other digits) is refused."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and not PLAIN_NUMBER.fullmatch(data):
            self.fail("invalid")
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.DATETIME)
class InstantField(serializers.Field):
    """A time with its offset from UTC. One without is refused: whose noon it is nobody can know."""

    default_error_messages = {
        "malformed": _("Write a time as in 2026-11-17T14:45:00+08:00."),
        "naive": _("Times need a time zone offset, as in 2026-11-17T14:45:00+08:00."),
        "far": _("Times lie between the years 2000 and 9000."),
    }

    def to_internal_value(self, data: Any) -> dt.datetime:
        if not isinstance(data, str) or len(data) > 40:
            self.fail("malformed")
        try:
            instant = parse_datetime(data.strip())
        except (ValueError, OverflowError):
            instant = None
        if instant is None:
            self.fail("malformed")
        if instant.tzinfo is None:
            self.fail("naive")
        try:
            instant = instant.astimezone(dt.UTC)
        except OverflowError:
            self.fail("far")
        if not EARLIEST <= instant <= LATEST:
            self.fail("far")
        return instant

    def to_representation(self, value: dt.datetime) -> str:
        return value.astimezone(dt.UTC).isoformat()
