"""What people type about a series: which dates, which hours by their own clock, what, and for whom."""

import datetime as dt
import re
from collections.abc import Sequence

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.reservations.errors import ReservationRefused
from portal.reservations.forms import ReserveForm, with_defaults
from portal.reservations.models import Series
from portal.reservations.offer import Offer
from portal.reservations.series_asked import MOST_PEOPLE, SeriesAsked
from portal.reservations.series_dates import MOST_DAYS, MOST_INTERVAL, MOST_OCCURRENCES, Clock, Rule, parse_rule

DATE, TIME = ["%Y-%m-%d"], ["%H:%M", "%H:%M:%S"]
WEEKDAYS = [("MO", _("Mon")), ("TU", _("Tue")), ("WE", _("Wed")), ("TH", _("Thu")), ("FR", _("Fri")), ("SA", _("Sat")),
            ("SU", _("Sun"))]  # fmt: skip
MONTHLY_BY_WEEKDAY = "MONTHLY-WEEKDAY"
REPEATS = [
    ("WEEKLY", _("Weekly")),
    ("DAILY", _("Daily")),
    ("MONTHLY", _("Monthly, the same date")),
    (MONTHLY_BY_WEEKDAY, _("Monthly, the same weekday")),
]
SEPARATORS = re.compile(r"[\s,;]+")
FIELD_OF_REFUSAL = {
    "start": "opens", "end": "closes", "rule": "repeat", "until": "until", "first_date": "first_date",
    "roster": "emails", "pool": "pool", "profile": "profile", "ranks": "ranks", "tenant": "tenant",
    "workload": "workload", "from_date": "from_date",
}  # fmt: skip
MOST_NAMED = 5


class DatesField(forms.CharField):
    """Dates as in 2026-12-24, between blanks, commas or lines."""

    def clean(self, value) -> frozenset[dt.date]:
        words = [word for word in SEPARATORS.split(super().clean(value)) if word]
        try:
            return frozenset(dt.date.fromisoformat(word) for word in words)
        except ValueError as error:
            raise forms.ValidationError(_("Write dates as in 2026-12-24.")) from error


class HoursForm(forms.Form):
    """From when until when on a date, by the reader's clock."""

    opens = forms.TimeField(label=_("Start time"), input_formats=TIME)
    closes = forms.TimeField(label=_("End time"), input_formats=TIME)
    days = forms.IntegerField(
        label=_("Days later"), min_value=0, max_value=MOST_DAYS, required=False,
        help_text=_("0 ends on the same day."))  # fmt: skip

    def clean_days(self) -> int:
        return self.cleaned_data["days"] or 0

    def refuse(self, refusal: ReservationRefused) -> None:
        """Beside its field, or above the form."""
        name = FIELD_OF_REFUSAL.get(refusal.field, "")
        self.add_error(name if name in self.fields else None, refusal.message)


class ChangeSeriesForm(HoursForm):
    from_date = forms.DateField(label=_("From this date on"), input_formats=DATE)


class SeriesForm(HoursForm, ReserveForm):
    """``asked`` is set once all is understood. ``people`` are those whom the reader may put on the roster."""

    start = start_date = start_time = length = end_date = end_time = None  # type: ignore[assignment]
    first_date = forms.DateField(label=_("First date"), input_formats=DATE)
    repeat = forms.ChoiceField(label=_("Repeats"), choices=REPEATS)
    interval = forms.IntegerField(label=_("Every"), min_value=1, max_value=MOST_INTERVAL)
    weekdays = forms.MultipleChoiceField(label=_("On"), choices=WEEKDAYS, required=False)
    ends = forms.ChoiceField(label=_("Ends"), choices=[("count", _("After")), ("until", _("On date"))])
    count = forms.IntegerField(label=_("Times"), min_value=1, max_value=MOST_OCCURRENCES, required=False)
    until = forms.DateField(label=_("Last date"), input_formats=DATE, required=False)
    exceptions = DatesField(
        label=_("Except on"),
        max_length=4000,
        required=False,
        help_text=_("Dates as in 2026-12-24, 2026-12-31."),
    )
    roster = forms.MultipleChoiceField(label=_("People"), required=False)
    emails = forms.CharField(
        label=_("E-mail addresses"), max_length=20_000, required=False,
        help_text=_("One on each line, as your list has them."))  # fmt: skip
    skip = DatesField(label=_("Skip"), max_length=4000, required=False)

    asked: SeriesAsked | None = None

    def __init__(self, offer: Offer, data: QueryDict, user: User, people: Sequence[User], **options):
        super().__init__(offer, last_values(data), **options)
        self.typed, self.data = data, data
        self.user, self.people = user, {str(person.pk): person for person in people}
        self.fields["roster"].choices = [(pk, str(person)) for pk, person in self.people.items()]  # type: ignore[attr-defined]
        rows = {"tenant": offer.tenants, "pool": offer.pools, "profile": offer.profiles}
        for name, found in rows.items():
            self.fields[name].choices = [(str(row.pk), getattr(row, "name", row)) for row in found]  # type: ignore[attr-defined]

    def clean(self) -> dict:
        cleaned = super().clean()
        people = self._roster(cleaned)
        rule = self._rule(cleaned)
        if rule is not None and not self.errors and self.draft is not None:
            zone = timezone.get_current_timezone()
            clock = Clock(zone, cleaned["opens"], cleaned["closes"], cleaned["days"])
            self.asked = SeriesAsked(
                created_by=self.user, owner=self.user, tenant=cleaned["tenant"], pool=cleaned["pool"],
                profile=cleaned["profile"], ranks=cleaned["ranks"], name=self.draft.name, draft=self.draft, rule=rule,
                first_date=cleaned["first_date"], clock=clock, exceptions=cleaned["exceptions"], roster=people,
            )  # fmt: skip
        return cleaned

    def _rule(self, cleaned: dict) -> Rule | None:
        ends = cleaned.get("ends")
        if ends and not cleaned.get(ends) and ends not in self.errors:
            self.add_error(ends, _("This is needed."))
        if self.errors.keys() & {"repeat", "interval", "weekdays", "ends", "count", "until", "first_date"}:
            return None
        repeat, first = cleaned["repeat"], cleaned["first_date"]
        weekdays = tuple(cleaned["weekdays"]) if repeat == "WEEKLY" else ()
        if repeat == MONTHLY_BY_WEEKDAY:
            weekdays = (_weekday_of_month(first),)
        count, until = (cleaned[name] if ends == name else None for name in ("count", "until"))
        rule = Rule(repeat.partition("-")[0], cleaned["interval"], weekdays, count, until)
        try:
            return parse_rule(str(rule))
        except ReservationRefused as refusal:
            self.refuse(refusal)
            return None

    def _roster(self, cleaned: dict) -> tuple[User, ...]:
        chosen = {pk: self.people[pk] for pk in cleaned.get("roster", ()) if pk in self.people}
        known = {person.email.lower(): person for person in self.people.values()}
        unknown = []
        for address in _addresses(cleaned.get("emails", "")):
            person = known.get(address)
            if person is None:
                unknown.append(address)
            else:
                chosen[str(person.pk)] = person
        if unknown:
            shown = {"unknown": ", ".join(unknown[:MOST_NAMED]), "n": len(unknown)}
            self.add_error("emails", _("Nobody here has %(unknown)s (%(n)d in all). Invite them first.") % shown)
        if len(chosen) > MOST_PEOPLE:
            self.add_error("emails", _("A class has at most %(most)d people.") % {"most": MOST_PEOPLE})
        return tuple(chosen.values())

    @property
    def skip_dates(self) -> frozenset[dt.date]:
        return self.cleaned_data.get("skip", frozenset())


def _weekday_of_month(date: dt.date) -> str:
    """2TU for a second Tuesday; what would be a fifth is the last."""
    number = (date.day - 1) // 7 + 1
    return f"{number if number < 5 else -1}{WEEKDAYS[date.weekday()][0]}"


def _addresses(text: str) -> list[str]:
    """Of a pasted list: plain addresses, and those of lines like Rosa <rosa@example.org>."""
    words = (word.strip("<>\"'()").lower() for word in SEPARATORS.split(text))
    return list(dict.fromkeys(word for word in words if "@" in word))


def values_of(offer: Offer, typed: QueryDict, *, choose: bool) -> QueryDict:
    """What was typed over what the form begins with; with ``choose`` the first of each takes the place of what is not
    offered. Several boxes of one name stay several."""
    values = QueryDict(mutable=True)
    values.update(first_values())
    for name in SeriesForm.base_fields.keys() & typed.keys():
        values.setlist(name, ["\n".join(typed.getlist(name))] if name == "skip" else typed.getlist(name))
    if choose:
        for name, value in with_defaults(offer, last_values(values)).items():
            if name in ("tenant", "pool", "profile", "workload"):
                values[name] = value
    return values


def last_values(typed: QueryDict) -> dict[str, str]:
    """One value of each name, as forms without boxes read it."""
    return {name: values[-1] for name, values in typed.lists() if values}


def first_values() -> dict[str, str]:
    """Weekly at nine for two hours, from tomorrow on."""
    first = timezone.localdate() + dt.timedelta(days=1)
    return {
        "ranks": "1", "first_date": f"{first:%Y-%m-%d}", "opens": "09:00", "closes": "11:00", "days": "0",
        "repeat": "WEEKLY", "interval": "1", "ends": "count", "count": "8", "exceptions": "", "emails": "",
        "command": "", "name": "", "workload": "", "key": "", "skip": "", "tenant": "", "pool": "", "profile": "",
    }  # fmt: skip


def change_values(series: Series, first: dt.date) -> dict[str, str]:
    return {
        "from_date": f"{first:%Y-%m-%d}", "opens": f"{series.opens:%H:%M}", "closes": f"{series.closes:%H:%M}",
        "days": str(series.days),
    }  # fmt: skip
