"""Local hours that a clock change leaves out or repeats: which instant is meant is asked, and the answer remembered.

A form that asks holds the answer in ``<side>_fold``, as the instant itself: with another date or time typed it is no
answer any more, and the question comes again.
"""

import datetime as dt
import zoneinfo
from dataclasses import dataclass

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.reservations.errors import HourUnclear
from portal.reservations.windows import local_time


@dataclass(frozen=True)
class Reading:
    """One instant that may be meant. ``value`` is what the form is sent."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True)
class HourQuestion:
    side: str
    text: str
    readings: tuple[Reading, ...]


class AsksWhichHour(forms.Form):
    """For forms with pairs of a date and a time. ``questions`` by side, answered ones included; drawn by
    reservations/calendar_question.html."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.questions: dict[str, HourQuestion] = {}

    def instant(self, date: dt.date, time: dt.time, side: str) -> dt.datetime:
        """In the reader's zone; raises :class:`HourUnclear` while the question is open."""
        zone = timezone.get_current_timezone()
        assert isinstance(zone, zoneinfo.ZoneInfo)
        answer = self.data.get(self.add_prefix(f"{side}_fold"), "")
        try:
            return local_time(date, time, zone, side)
        except HourUnclear as unclear:
            meant = next((when for when in unclear.readings if fold_value(when) == answer), None)
            readings = tuple(
                Reading(fold_value(when), reading_words(when.astimezone(zone), unclear.twice), when == meant)
                for when in unclear.readings
            )
            self.questions[side] = HourQuestion(side, unclear.message, readings)
            if meant is None:
                raise
            return meant


def fold_value(when: dt.datetime) -> str:
    """What ``<side>_fold`` says for this instant; where the local time is clear it is not looked at."""
    return str(int(when.timestamp()))


def reading_words(local: dt.datetime, twice: bool) -> str:
    """The first, summer time (UTC+02:00); or, where the hour typed does not exist, 03:00 (UTC+02:00)."""
    offset = f"UTC{local.isoformat(timespec='minutes')[16:]}"
    if not twice:
        return _("%(time)s (%(offset)s)") % {"time": f"{local:%H:%M}", "offset": offset}
    summer = bool(local.dst()) and not local.fold
    if summer:
        return _("the first, summer time (%(offset)s)") % {"offset": offset}
    if local.fold:
        return _("the second (%(offset)s)") % {"offset": offset}
    return _("the first (%(offset)s)") % {"offset": offset}
