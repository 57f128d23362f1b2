"""The form of a change: another window by the reader's clock, another name."""

import datetime as dt
from collections.abc import Mapping

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from psycopg2.extras import DateTimeTZRange

from portal.reservations.calendar_hours import AsksWhichHour
from portal.reservations.errors import ReservationRefused, WindowRefused
from portal.reservations.models import Reservation
from portal.reservations.windows import make_window

EXTEND = "extend"
LONGEST_EXTENSION = 366 * 86400
FIELD_OF_REFUSAL = {"start": "start_time", "end": "end_time", "name": "name"}


class ChangeForm(AsksWhichHour):
    """``window`` is set once both ends are understood. What has started has no field for its start: that stays.

    An end that shows the minute in which the present one lies is the present one: seconds are not typed.
    """

    name = forms.CharField(label=_("Name"), max_length=64)
    start_date = forms.DateField(label=_("Start date"), input_formats=["%Y-%m-%d"])
    start_time = forms.TimeField(label=_("Start time"), input_formats=["%H:%M", "%H:%M:%S"])
    end_date = forms.DateField(label=_("End date"), input_formats=["%Y-%m-%d"])
    end_time = forms.TimeField(label=_("End time"), input_formats=["%H:%M", "%H:%M:%S"])

    window: DateTimeTZRange | None = None

    def __init__(self, reservation: Reservation, started: bool, data: Mapping[str, str] | None = None):
        values = values_of(reservation)
        typed = [name for name in (*values, "start_fold", "end_fold") if data and name in data]
        super().__init__(data={**values, **{name: data[name] for name in typed}} if data else values)
        self.reservation, self.started = reservation, started
        if started:
            del self.fields["start_date"], self.fields["start_time"]

    def clean(self) -> dict:
        cleaned = super().clean() or {}
        try:
            start = self.reservation.starts_at if self.started else self._moment(cleaned, "start")
            end = self._moment(cleaned, "end")
            self.window = make_window(start, end) if start and end else None
        except WindowRefused as refusal:
            self.refuse(refusal)
        return cleaned

    def _moment(self, cleaned: dict, side: str) -> dt.datetime | None:
        date, time = cleaned.get(f"{side}_date"), cleaned.get(f"{side}_time")
        if date is None or time is None:
            return None
        present = getattr(self.reservation, f"{side}s_at")
        shown = {f"{side}_date": f"{date:%Y-%m-%d}", f"{side}_time": f"{time:%H:%M}"}
        if f"{side}_fold" not in self.data and _local(side, present) == shown:
            return present
        return self.instant(date, time, side)

    def refuse(self, refusal: ReservationRefused) -> None:
        """Put a refusal beside the field that it names, if this form has it."""
        field = FIELD_OF_REFUSAL.get(refusal.field, "")
        self.add_error(field if field in self.fields else None, refusal.message)

    @property
    def new_window(self) -> DateTimeTZRange | None:
        """None when it is the present one."""
        return None if self.window == self.reservation.during else self.window

    @property
    def new_name(self) -> str | None:
        name = self.cleaned_data.get("name")
        return None if name == self.reservation.workload.name else name


def values_of(reservation: Reservation) -> dict[str, str]:
    """What the form shows at first."""
    name = {"name": reservation.workload.name}
    return name | _local("start", reservation.starts_at) | _local("end", reservation.ends_at)


def extended(reservation: Reservation, seconds_typed: str) -> DateTimeTZRange | None:
    """The window with so many seconds more, or None for what is no such number."""
    if not seconds_typed.isascii() or not seconds_typed.isdecimal() or len(seconds_typed) > 9:
        return None
    seconds = int(seconds_typed)
    if not 0 < seconds <= LONGEST_EXTENSION:
        return None
    return DateTimeTZRange(reservation.starts_at, reservation.ends_at + dt.timedelta(seconds=seconds), "[)")


def _local(side: str, when: dt.datetime) -> dict[str, str]:
    when = timezone.localtime(when)
    return {f"{side}_date": f"{when:%Y-%m-%d}", f"{side}_time": f"{when:%H:%M}"}
