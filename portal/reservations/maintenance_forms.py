"""What an admin types about maintenance and drains, in their own local time."""

import datetime as dt
from collections.abc import Mapping

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Node, NodeState, Pool
from portal.reservations.calendar_hours import AsksWhichHour
from portal.reservations.errors import WindowRefused
from portal.reservations.windows import make_window

EVERYTHING = "all"
DATE, TIME = ["%Y-%m-%d"], ["%H:%M", "%H:%M:%S"]
QUARTER = dt.timedelta(minutes=15)
FIELD_OF_REFUSAL = {
    "start": "start_time", "end": "end_time", "until": "until_time", "reason": "reason", "node": "target",
}  # fmt: skip


class LocalTimesForm(AsksWhichHour):
    """Pairs ``<side>_date`` and ``<side>_time``; an hour that does not exist or exists twice is asked about."""

    def moment(self, side: str) -> dt.datetime | None:
        """None when a part is missing or refused; then the error stands beside it."""
        date, time = self.cleaned_data.get(f"{side}_date"), self.cleaned_data.get(f"{side}_time")
        if not date or not time:
            return None
        try:
            return self.instant(date, time, side)
        except WindowRefused as refusal:
            self.refuse(refusal)
            return None

    def refuse(self, refusal: Exception) -> None:
        """Beside its field, or above the form."""
        name = FIELD_OF_REFUSAL.get(getattr(refusal, "field", ""), "")
        self.add_error(name if name in self.fields else None, str(refusal))


class EndForm(LocalTimesForm):
    end_date = forms.DateField(label=_("End date"), input_formats=DATE)
    end_time = forms.TimeField(label=_("End time"), input_formats=TIME)

    ends_at: dt.datetime | None = None

    def clean(self) -> dict:
        cleaned = super().clean() or {}
        self.ends_at = self.moment("end")
        return cleaned


class MaintenanceForm(LocalTimesForm):
    """``during`` is set once both times are understood; ``node`` and ``pool`` None is everything."""

    target = forms.ChoiceField(label=_("What"))
    start_date = forms.DateField(label=_("Start date"), input_formats=DATE)
    start_time = forms.TimeField(label=_("Start time"), input_formats=TIME)
    end_date = forms.DateField(label=_("End date"), input_formats=DATE)
    end_time = forms.TimeField(label=_("End time"), input_formats=TIME)
    reason = forms.CharField(label=_("Reason"), max_length=200, help_text=_("Everybody reads it."))

    during: DateTimeTZRange | None = None
    node: Node | None = None
    pool: Pool | None = None

    def __init__(self, data: Mapping[str, str] | None = None, **options):
        super().__init__(data, **options)
        self.nodes = {f"n{node.pk}": node for node in Node.objects.exclude(state=NodeState.RETIRED)}
        self.pools = {f"p{pool.pk}": pool for pool in Pool.objects.all()}
        self.fields["target"].choices = [  # type: ignore[attr-defined]
            *((key, _("Node %(name)s") % {"name": node}) for key, node in self.nodes.items()),
            *((key, _("Pool %(name)s") % {"name": pool}) for key, pool in self.pools.items()),
            (EVERYTHING, _("Everything")),
        ]

    def clean(self) -> dict:
        cleaned = super().clean() or {}
        target = cleaned.get("target", "")
        self.node, self.pool = self.nodes.get(target), self.pools.get(target)
        start, end = self.moment("start"), self.moment("end")
        try:
            self.during = make_window(start, end) if start and end else None
        except WindowRefused as refusal:
            self.refuse(refusal)
        return cleaned


class ServiceForm(LocalTimesForm):
    """What a node shall do, and for a drain perhaps until when it is to be empty."""

    state = forms.ChoiceField(choices=[(one.value, one.label) for one in NodeState if one != NodeState.RETIRED])
    until_date = forms.DateField(label=_("Empty by, date"), input_formats=DATE, required=False)
    until_time = forms.TimeField(label=_("Empty by, time"), input_formats=TIME, required=False)

    until: dt.datetime | None = None

    def clean(self) -> dict:
        cleaned = super().clean() or {}
        parts = [bool(cleaned.get(f"until_{part}")) for part in ("date", "time")]
        if any(parts) and not all(parts):
            self.add_error("until_time" if parts[0] else "until_date", _("A deadline has a date and a time."))
        self.until = self.moment("until")
        return cleaned


def local_parts(side: str, when: dt.datetime) -> dict[str, str]:
    local = timezone.localtime(when)
    return {f"{side}_date": f"{local:%Y-%m-%d}", f"{side}_time": f"{local:%H:%M}"}


def first_values(target: str, now: dt.datetime) -> dict[str, str]:
    """Two hours from the next full quarter of an hour a day ahead."""
    start = now.replace(minute=0, second=0, microsecond=0) + dt.timedelta(hours=24) + QUARTER * (now.minute // 15)
    return {"target": target, **local_parts("start", start), **local_parts("end", start + dt.timedelta(hours=2))}
