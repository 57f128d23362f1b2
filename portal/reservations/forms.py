"""The reserve form: what a person typed, turned into a request that the services take, or into errors beside fields."""

import datetime as dt
import re
import shlex
import uuid
from collections.abc import Mapping

from django import forms
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from psycopg2.extras import DateTimeTZRange

from portal.reservations.calendar_hours import AsksWhichHour, fold_value
from portal.reservations.errors import WindowRefused
from portal.reservations.group_form import RESTARTS_USUAL, GroupForm
from portal.reservations.offer import Offer, named
from portal.reservations.rules import MOST_RANKS
from portal.reservations.windows import make_window
from portal.workloads.drafts import DraftRefused, WorkloadDraft, check_draft, draft_from_template

LENGTHS = (1, 2, 4, 8, 24)
STARTS = [("now", _("Now")), ("soon", _("As soon as possible")), ("at", _("At"))]
UNTIL = "until"
OWN_COMMAND = "command"
QUARTER = dt.timedelta(minutes=15)
# pool, profile, ranks, start and end as seconds: an alternative that is taken with one click
TAKEN = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,4})\.([0-9]{9,11})\.([0-9]{9,11})")
FIELD_OF_REFUSAL = {
    "start": "start_time",
    "end": "end_time",
    "pool": "pool",
    "profile": "profile",
    "ranks": "ranks",
    "tenant": "tenant",
    "workload": "workload",
    "together": "group",
}
NO_DATE, NO_TIME = {"invalid": _("This is no date.")}, {"invalid": _("This is no time.")}
DATES, TIMES = ["%Y-%m-%d"], ["%H:%M", "%H:%M:%S"]
WAITS_AS_USUAL = _("Who waits takes what is usual: whole GPUs as one group, slices each on its own.")
NOT_OFFERED = _("Choose one of those that are offered.")


class WindowForm(AsksWhichHour):
    """When: a start and a length or an end, local to the reader. ``request_window`` is set once both are understood.

    Asked for as soon as possible, the window is the one that begins now: only its length counts.
    """

    start = forms.ChoiceField(label=_("Start"), choices=STARTS)
    start_date = forms.DateField(label=_("Start date"), required=False, input_formats=DATES, error_messages=NO_DATE)
    start_time = forms.TimeField(label=_("Start time"), required=False, input_formats=TIMES, error_messages=NO_TIME)
    length = forms.ChoiceField(label=_("End"), choices=[*((str(n), n) for n in LENGTHS), (UNTIL, _("Until"))])
    end_date = forms.DateField(label=_("End date"), required=False, input_formats=DATES, error_messages=NO_DATE)
    end_time = forms.TimeField(label=_("End time"), required=False, input_formats=TIMES, error_messages=NO_TIME)

    request_window: DateTimeTZRange | None = None

    def __init__(self, data: Mapping[str, str], **options):
        super().__init__(data=data, **options)
        self.now = timezone.now()
        self.taken = TAKEN.fullmatch(data.get("take", ""))

    @property
    def soon(self) -> bool:
        """No window is asked for: the request may wait in the queue."""
        return not self.taken and self.data.get("start") == "soon"

    def clean(self) -> dict:
        cleaned = super().clean() or {}
        try:
            self.request_window = self._window(cleaned)
        except WindowRefused as refusal:
            self.add_error(FIELD_OF_REFUSAL.get(refusal.field, "start_time"), refusal.message)
        return cleaned

    def _window(self, cleaned: dict) -> DateTimeTZRange | None:
        if self.taken:
            start, end = (dt.datetime.fromtimestamp(int(self.taken[place]), dt.UTC) for place in (4, 5))
            return make_window(start, end)
        if "start" not in cleaned or "length" not in cleaned:
            return None
        if cleaned["start"] == "soon" and cleaned["length"] == UNTIL:
            raise WindowRefused(str(_("Choose for how long: when it starts is not known yet.")), field="end")
        begin = self._moment(cleaned, "start") if cleaned["start"] == "at" else self.now
        if cleaned["length"] != UNTIL:
            return _window_of_hours(begin, int(cleaned["length"])) if begin else None
        finish = self._moment(cleaned, "end")
        return make_window(begin, finish) if begin and finish else None

    def _moment(self, cleaned: dict, side: str) -> dt.datetime | None:
        date, time = cleaned.get(f"{side}_date"), cleaned.get(f"{side}_time")
        if date and time:
            return self.instant(date, time, side)
        for part, value in (("date", date), ("time", time)):
            if not value and f"{side}_{part}" not in self.errors:
                self.add_error(f"{side}_{part}", _("This is needed."))
        return None


class ReserveForm(WindowForm, GroupForm):
    """All of a request. ``draft`` is set once the workload is understood."""

    tenant = forms.CharField(label=_("Charge to"), max_length=20)
    pool = forms.CharField(label=_("Pool"), max_length=20)
    profile = forms.CharField(label=_("Size"), max_length=20)
    ranks = forms.IntegerField(
        label=_("Count"), min_value=1, max_value=MOST_RANKS,
        error_messages=dict.fromkeys(
            ("required", "invalid", "min_value", "max_value"),
            format_lazy(_("The count is a whole number from 1 to {most}."), most=MOST_RANKS)),
    )  # fmt: skip
    workload = forms.CharField(label=_("Workload"), max_length=20)
    command = forms.CharField(label=_("Command"), max_length=8000, required=False, strip=False)
    name = forms.CharField(label=_("Name"), max_length=64, required=False)
    key = forms.CharField(max_length=64, required=False)

    draft: WorkloadDraft | None = None
    field_order = ("pool", "profile", "ranks", "group", "rank_loss", "restarts", "start", "start_date", "start_time",
                   "length", "end_date", "end_time")  # fmt: skip

    def __init__(self, offer: Offer, data: Mapping[str, str], **options):
        super().__init__(data, **options)
        self.offer = offer

    def clean_tenant(self):
        return self._one_of(self.offer.tenants, "tenant")

    def clean_pool(self):
        return self._one_of(self.offer.pools, "pool")

    def clean_profile(self):
        return self._one_of(self.offer.profiles, "profile")

    def _one_of(self, rows, name: str):
        found = named(rows, self.cleaned_data[name])
        if found is None:
            raise forms.ValidationError(NOT_OFFERED, code="not_offered")
        return found

    def clean(self) -> dict:
        cleaned = super().clean()
        self._read_workload(cleaned)
        if (self.soon or self.joins_waitlist) and self.together is not None:
            self.add_error("group", WAITS_AS_USUAL)
        return cleaned

    @property
    def joins_waitlist(self) -> bool:
        return "waitlist" in self.data and not self.taken

    def _read_workload(self, cleaned: dict) -> None:
        choice = cleaned.get("workload")
        template = named(self.offer.templates, choice)
        if choice is None:
            return
        try:
            if template is not None:
                self.draft = draft_from_template(template, cleaned.get("name") or template.name)
            elif choice == OWN_COMMAND:
                self.draft = self._own_command(cleaned)
            else:
                self.add_error("workload", NOT_OFFERED)
                return
            self.draft = self.with_rank_loss(self.draft)
            check_draft(self.draft)
        except DraftRefused as refusal:
            where = "command" if choice == OWN_COMMAND and cleaned.get("command") is not None else "workload"
            self.add_error(where, str(refusal))

    def _own_command(self, cleaned: dict) -> WorkloadDraft:
        """Split as a shell would, but nothing is expanded: what runs is a list of words."""
        try:
            words = tuple(shlex.split(cleaned.get("command") or ""))
        except ValueError as error:
            raise DraftRefused(_("A quotation mark is not closed.")) from error
        name = cleaned.get("name") or (words[0].rsplit("/", 1)[-1][:64] if words else "")
        return WorkloadDraft(name or "command", command=words)

    @property
    def first_invalid(self) -> str:
        return next((name for name in self.fields if name in self.errors), "")


def _window_of_hours(start: dt.datetime, hours: int) -> DateTimeTZRange:
    try:
        return make_window(start, start + dt.timedelta(hours=hours))
    except OverflowError as error:
        raise WindowRefused(str(_("That date is too far away.")), field="start") from error


def values_at_first(asked: Mapping[str, str]) -> dict[str, str]:
    """What the form shows at first: one for two hours from now, or what the address asks for."""
    now = timezone.localtime()
    start = now + (QUARTER - (now - now.replace(minute=0, second=0, microsecond=0)) % QUARTER)
    values = {
        "tenant": "", "pool": "", "profile": "", "ranks": "1", "start": "now", "length": "2",
        "workload": "", "command": "", "name": "", "key": uuid.uuid4().hex,
        "group": "", "rank_loss": "end", "restarts": str(RESTARTS_USUAL),
    }  # fmt: skip
    values |= _local("start", start) | _local("end", start + dt.timedelta(hours=2))
    return values | {name: value[:8000] for name, value in asked.items() if name in values and name != "key"}


def with_defaults(offer: Offer, values: Mapping[str, str]) -> dict[str, str]:
    """The values with the first of each offer in place of what is not offered: after another pool was chosen."""
    rows = (("tenant", offer.tenants, offer.tenant), ("pool", offer.pools, offer.pool))
    first = dict(values)
    for name, offered, usual in rows:
        if named(offered, first.get(name)) is None:
            first[name] = str(usual.pk) if usual else ""
    if named(offer.profiles, first.get("profile")) is None:
        first["profile"] = str(offer.profiles[0].pk) if offer.profiles else ""
    if named(offer.templates, first.get("workload")) is None and first.get("workload") != OWN_COMMAND:
        first["workload"] = str(offer.templates[0].pk) if offer.templates else OWN_COMMAND
    return first


def with_alternative(data: Mapping[str, str]) -> dict[str, str]:
    """The form's values with those of an alternative that was clicked laid over them."""
    values = {name: data[name] for name in data}
    if "queue" in values:  # "start now" was refused, and its reader would rather wait
        values |= {"start": "soon"}
    taken = TAKEN.fullmatch(values.get("take", ""))
    if not taken:
        return values
    pool, profile, ranks, since, until = taken.groups()
    start, end = (timezone.localtime(dt.datetime.fromtimestamp(int(at), dt.UTC)) for at in (since, until))
    values |= {"pool": pool, "profile": profile, "ranks": ranks, "start": "at", "length": UNTIL}
    return values | _local("start", start) | _local("end", end)


def _local(side: str, when: dt.datetime) -> dict[str, str]:
    return {
        f"{side}_date": f"{when:%Y-%m-%d}",
        f"{side}_time": f"{when:%H:%M}",
        f"{side}_fold": fold_value(when.replace(second=0, microsecond=0)),
    }
