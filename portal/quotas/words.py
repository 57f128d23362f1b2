"""Lengths, validities and hours of the week in words."""

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext
from psycopg2.extras import DateTimeTZRange

from portal.quotas.models import ALL_WEEKDAYS, OpenHours

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # translated where Berth's formats list them


def length(seconds: int) -> str:
    """In its largest whole unit: 90 min, 4 h, 14 days."""
    if seconds and seconds % 86400 == 0:
        return ngettext("%(n)d day", "%(n)d days", seconds // 86400) % {"n": seconds // 86400}
    if seconds and seconds % 3600 == 0:
        return _("%(n)d h") % {"n": seconds // 3600}
    if seconds % 60 == 0:
        return _("%(n)d min") % {"n": seconds // 60}
    return _("%(n)d s") % {"n": seconds}


def slice_hours(slice_seconds: int) -> str:
    """Weighted slice-seconds: 48 slice-h, 1.5 slice-h."""
    hours = Decimal(slice_seconds) / 3600
    whole = hours == hours.to_integral_value()
    return _("%(hours)s slice-h") % {"hours": number_format(hours, None if whole else 1, force_grouping=True)}


def listed(words: Iterable[object]) -> str:
    return pgettext("between the parts of a list", ", ").join(str(word) for word in words)


def valid_words(valid: DateTimeTZRange) -> str:
    """From when until when, in the reader's zone; what has no bound says nothing about it."""
    if valid.lower is None and valid.upper is None:
        return _("always")
    if valid.lower is None:
        return _("until %(until)s") % {"until": moment(valid.upper)}
    if valid.upper is None:
        return _("from %(since)s on") % {"since": moment(valid.lower)}
    return _("%(since)s to %(until)s") % {"since": moment(valid.lower), "until": moment(valid.upper)}


def moment(at: dt.datetime) -> str:
    """A date alone where it is the beginning of a day."""
    local = timezone.localtime(at)
    return f"{local:%Y-%m-%d}" if (local.hour, local.minute) == (0, 0) else f"{local:%Y-%m-%d %H:%M}"


def hours_words(hours: Iterable[OpenHours], zone: str) -> str:
    """Mon–Fri 09:00–17:00, Sat 10:00–12:00 (Europe/Berlin)."""
    schedules = listed(one_schedule(one) for one in hours)
    return _("%(hours)s (%(zone)s)") % {"hours": schedules, "zone": zone}


def one_schedule(one: OpenHours) -> str:
    times = f"{clock(one.opens)}–{clock(one.closes)}"
    if one.weekdays == ALL_WEEKDAYS:
        return times
    return _("%(days)s %(times)s") % {"days": weekday_words(one.weekdays), "times": times}


def clock(minutes: int) -> str:
    """Minutes after midnight as a clock reads them; the day's end is 24:00."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def weekday_words(mask: int) -> str:
    """Days that follow each other as a stretch: Mon–Fri, Sun."""
    days = [day for day in range(7) if mask & 1 << day]
    stretches: list[list[int]] = []
    for day in days:
        if stretches and stretches[-1][-1] == day - 1:
            stretches[-1].append(day)
        else:
            stretches.append([day])
    return listed(
        _(WEEKDAYS[one[0]]) if len(one) == 1 else f"{_(WEEKDAYS[one[0]])}–{_(WEEKDAYS[one[-1]])}" for one in stretches
    )
