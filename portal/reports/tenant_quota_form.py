"""A quota with its dates and hours as a lead types them."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from psycopg2.extras import DateTimeTZRange

from portal.accounts.numbers import WholeNumber
from portal.inventory.models import Pool
from portal.quotas.hours import MOST_SCHEDULES, Hours
from portal.quotas.models import Quota

DAY_MINUTES = 1440
UNREADABLE = {"invalid": gettext_lazy("Choose a day and a time.")}
MOMENTS = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


@dataclass(frozen=True)
class Line:
    """One schedule as typed. Its end at midnight is typed 00:00."""

    number: int
    days: frozenset[int]
    opens: str
    closes: str

    @property
    def is_empty(self) -> bool:
        return not (self.days or self.opens or self.closes)


class PeriodForm(forms.Form):
    """One row of a quota: weights, when it is valid in the reader's zone, and hours in the tenant's zone."""

    pool = forms.ModelChoiceField(queryset=Pool.objects.all())
    quota = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    guaranteed = WholeNumber(label=gettext_lazy("Guaranteed"), most=10**9)
    limit = WholeNumber(label=gettext_lazy("Limit"), most=10**9)
    valid_from = forms.DateTimeField(
        label=gettext_lazy("Valid from"), input_formats=MOMENTS, required=False, error_messages=UNREADABLE)
    valid_until = forms.DateTimeField(
        label=gettext_lazy("Valid until"), input_formats=MOMENTS, required=False, error_messages=UNREADABLE)

    def __init__(self, data: QueryDict | None = None, *, row: Quota | None = None):
        super().__init__(data, initial=_initial(row) if row else None)
        self.lines = _lines_of(row) if data is None else _typed_lines(data)
        self.hours: list[Hours] = []

    @property
    def shown_lines(self) -> list[Line]:
        """What was typed, and one more to type into."""
        kept = [line for line in self.lines if not line.is_empty]
        lines = [Line(number, line.days, line.opens, line.closes) for number, line in enumerate(kept)]
        return [*lines, Line(len(lines), frozenset(), "", "")][:MOST_SCHEDULES]

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or {}
        since, until = asked.get("valid_from"), asked.get("valid_until")
        if since and until and until <= since:
            self.add_error("valid_until", _("The end must be after the start."))
        else:
            asked["valid"] = DateTimeTZRange(since, until, "[)")
        try:
            self.hours = [_hours(line) for line in self.lines if not line.is_empty]
        except ValueError as error:
            self.add_error(None, str(error))
        return asked


def _typed_lines(data: QueryDict) -> list[Line]:
    found = []
    for number in range(MOST_SCHEDULES):
        days = {int(day) for day in data.getlist(f"days-{number}") if day in "0123456" and len(day) == 1}
        opens, closes = (data.get(f"{name}-{number}", "").strip()[:8] for name in ("opens", "closes"))
        found.append(Line(number, frozenset(days), opens, closes))
    return found


def _hours(line: Line) -> Hours:
    """Raises ValueError with the sentence that is shown."""
    if not line.days:
        raise ValueError(_("Choose at least one day of the week."))
    opens, closes = _minutes(line.opens), _minutes(line.closes)
    return Hours(sum(1 << day for day in line.days), opens, closes or DAY_MINUTES)


def _minutes(typed: str) -> int:
    try:
        time = dt.datetime.strptime(typed, "%H:%M").time()  # noqa: DTZ007  # a clock time of every day, in no zone
    except ValueError as error:
        raise ValueError(_("Write hours as in 09:00.")) from error
    return time.hour * 60 + time.minute


def _initial(row: Quota) -> dict[str, Any]:
    return {
        "guaranteed": row.guaranteed, "limit": row.limit, "quota": row.pk,
        "valid_from": _typed(row.valid.lower), "valid_until": _typed(row.valid.upper),
    }  # fmt: skip


def _typed(at: dt.datetime | None) -> str:
    if at is None:
        return ""
    return timezone.localtime(at).strftime(MOMENTS[1] if at.second else MOMENTS[0])


def _lines_of(row: Quota | None) -> list[Line]:
    hours = row.open_hours if row else ()
    days = [frozenset(day for day in range(7) if one.weekdays >> day & 1) for one in hours]
    return [Line(number, days[number], _clock(one.opens), _clock(one.closes)) for number, one in enumerate(hours)]


def _clock(minutes: int) -> str:
    minutes %= DAY_MINUTES
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
