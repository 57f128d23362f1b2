"""How numbers, times and spans are written for people: in the reader's zone and language, units always the same."""

import datetime as dt
import functools
from decimal import ROUND_HALF_UP, Decimal

from django import template
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.text import capfirst
from django.utils.translation import get_language, gettext_noop, pgettext
from django.utils.translation import gettext as _

register = template.Library()

NOTHING = "–"
# Django's own short names of the days, listed so that Berth's catalogues may replace them: its Chinese ones are long.
WEEKDAYS = (
    gettext_noop("Mon"), gettext_noop("Tue"), gettext_noop("Wed"), gettext_noop("Thu"),
    gettext_noop("Fri"), gettext_noop("Sat"), gettext_noop("Sun"),
)  # fmt: skip
LEAST_HOURS = Decimal("0.01")


def _number(value: Decimal, digits: int) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    if digits and rounded == rounded.to_integral_value():
        digits = 0
    return number_format(rounded, decimal_pos=digits, force_grouping=True)


@register.filter
def slice_hours(seconds: int | None) -> str:
    """Weighted slice-seconds as hours, without the unit: 12, 7.2, 0.03; a little is never shown as nothing."""
    if seconds is None:
        return NOTHING
    hours = Decimal(seconds) / 3600
    if 0 < hours < LEAST_HOURS:
        return f"<{_number(LEAST_HOURS, 2)}"
    return _number(hours, 2 if 0 < abs(hours) < 1 else 1)


@register.filter
def slice_h(seconds: int | None) -> str:
    """Weighted slice-seconds with their unit: 12 slice-h."""
    return _("%(hours)s slice-h") % {"hours": slice_hours(seconds)}


@register.filter
def slice_h_exact(seconds: int) -> str:
    """With both decimals, so that the parts of a sum are seen to add up: 1.96 slice-h."""
    return _("%(hours)s slice-h") % {"hours": _number(Decimal(seconds) / 3600, 2)}


@register.filter
def gib(mib: float | None) -> str:
    """MiB as GiB: 9.8 GiB; None is not measurable."""
    return _("not measurable") if mib is None else f"{_number(Decimal(mib) / 1024, 1)} GiB"


@register.filter
def gib_number(mib: float | None) -> str:
    return NOTHING if mib is None else _number(Decimal(mib) / 1024, 1)


@register.filter
def percent(value: float | None) -> str:
    """A percentage, or the words for a value that cannot be measured; never 0 for want of a value."""
    return _("not measurable") if value is None else f"{_number(Decimal(value), 0)} %"


@register.filter
def grouped(value: int | None) -> str:
    return NOTHING if value is None else number_format(value, force_grouping=True)


@register.filter
def iso(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat(timespec="seconds")


@register.filter
def epoch(moment: dt.datetime) -> int:
    return int(moment.timestamp())


@register.filter
def hour(moment: dt.datetime | None) -> str:
    """Clock time in the reader's zone: 14:45."""
    return f"{timezone.localtime(moment):%H:%M}" if moment else NOTHING


@register.filter
def second(moment: dt.datetime | None) -> str:
    return f"{timezone.localtime(moment):%H:%M:%S}" if moment else NOTHING


@register.filter
def day(moment: dt.datetime) -> str:
    """Weekday, day and month in the reader's zone: Tue 17 Nov; with the year when it is another."""
    local = timezone.localtime(moment)
    return _day_in(get_language() or "", local.date(), local.year != timezone.localtime().year)


@functools.lru_cache(maxsize=2000)
def _day_in(language: str, date: dt.date, with_year: bool) -> str:
    """Lists name the same few days again and again, and each costs several look-ups in the catalogue."""
    if with_year:
        return date_format(date, pgettext("Django date format with a year", "D j M Y"))
    return date_format(date, pgettext("Django date format", "D j M"))


@register.filter
def moment(when: dt.datetime | None) -> str:
    """The hour, with the day only when it is not today."""
    if when is None:
        return NOTHING
    if timezone.localtime(when).date() == timezone.localtime().date():
        return hour(when)
    return _("%(day)s, %(time)s") % {"day": day(when), "time": hour(when)}


@register.filter
def hours(during) -> str:
    """Start and end as clock times: 14:45–18:45; the days too when the window is longer than a day."""
    if during.upper - during.lower > dt.timedelta(days=1):
        return f"{moment(during.lower)} – {moment(during.upper)}"
    return f"{hour(during.lower)}–{hour(during.upper)}"


@register.filter
def window(during) -> str:
    """14:45–18:45, with the day of the start only when that is not today."""
    today = timezone.localtime().date()
    long = during.upper - during.lower > dt.timedelta(days=1)
    if long or timezone.localtime(during.lower).date() == today:
        return hours(during)
    return _("%(day)s, %(time)s") % {"day": day(during.lower), "time": hours(during)}


@register.filter("lasting")  # not "length": that one counts
def duration(seconds: float | None) -> str:
    """A length of time in at most two units: 2 h 24 min, 3 d 4 h, 45 s."""
    if seconds is None:
        return NOTHING
    whole = max(0, int(seconds))
    days, hour_count, minutes = whole // 86400, whole % 86400 // 3600, whole % 3600 // 60
    if days:
        both = {"days": days, "hours": hour_count}
        return _("%(days)d d %(hours)d h") % both if hour_count else _("%(days)d d") % both
    if hour_count:
        both = {"hours": hour_count, "minutes": minutes}
        return _("%(hours)d h %(minutes)d min") % both if minutes else _("%(hours)d h") % both
    return _("%(minutes)d min") % {"minutes": minutes} if minutes else _("%(seconds)d s") % {"seconds": whole}


@register.filter
def left(moment_: dt.datetime) -> str:
    """How long until then: 2 h 24 min; 0 s when it is past."""
    return duration((moment_ - timezone.now()).total_seconds())


@register.filter
def ago(moment_: dt.datetime) -> str:
    """How long since then."""
    return duration((timezone.now() - moment_).total_seconds())


@register.filter
def slices(span) -> str:
    """The slices of a half-open span: slices 4–7, slice 2."""
    if span.upper - span.lower == 1:
        return _("slice %(slice)d") % {"slice": span.lower}
    return _("slices %(first)d–%(last)d") % {"first": span.lower, "last": span.upper - 1}


@register.filter
def share(part: float, whole: float) -> str:
    """Part of whole as an SVG percentage, 0% of nothing: width="{{ used|share:limit }}"."""
    return f"{min(100.0, max(0.0, 100 * part / whole)) if whole else 0.0:.4g}%"


MARKS = {
    "requested": "waiting", "queued": "waiting", "confirmed": "planned", "running": "active", "ended": "ended",
    "refused": "failed", "cancelled": "ended", "planned": "planned", "starting": "starting", "active": "active",
    "stopping": "stopping", "failed": "failed",
}  # fmt: skip
BAD_ENDS = {"failed", "node_lost", "no_show", "displaced"}


@register.filter
def state_mark(state: str, end_reason: str = "") -> str:
    """The mark of the stylesheet for the state of a reservation or a lease: its shape and colour."""
    return "failed" if end_reason in BAD_ENDS else MARKS.get(state, "planned")


@register.filter
def state_word(reservation) -> str:
    """The state of a reservation in a word; of an ended one, why it ended."""
    if reservation.state == "confirmed":
        return _("Planned")
    if reservation.end_reason:
        return capfirst(reservation.get_end_reason_display())
    return capfirst(reservation.get_state_display())


@register.filter
def attr(value: float) -> str:
    """A number for an attribute of SVG: a point, whatever the language, and no needless zeros."""
    return f"{value:.4g}"


@register.filter
def text(value: object) -> str:
    """As it is compared with what a form was sent."""
    return str(value)


@register.filter
def get(rows: dict, name: str):
    return rows.get(name, "")


@register.filter
def label_of(form, name: str) -> str:
    return str(form.fields[name].label) if name in form.fields else ""


@register.filter
def minus(value: int, other: int) -> int:
    return value - other


@register.filter
def plus(value: int, other: int) -> int:
    return value + other


@register.filter
def length_of(during) -> str:
    return duration((during.upper - during.lower).total_seconds())


@register.filter
def hours_of(during) -> str:
    """The hours of a window as a number: 4, 0.5."""
    return slice_hours(int((during.upper - during.lower).total_seconds()))


@register.filter
def start_query(when: dt.datetime) -> str:
    """The part of the reserve form's address that starts it then, in the reader's zone."""
    local = timezone.localtime(when)
    minute = local.replace(second=0, microsecond=0)
    return f"start=at&start_date={local:%Y-%m-%d}&start_time={local:%H:%M}&start_fold={int(minute.timestamp())}"


@register.simple_tag(takes_context=True)
def field_state(context, name: str) -> str:
    """The attributes that tie a field to its error; the first wrong one has the focus when the page is there."""
    if name not in context["errors"]:
        return ""
    focus = mark_safe(" autofocus") if context["form"].first_invalid == name else ""
    return format_html(' aria-invalid="true" aria-describedby="err-{}"{}', name, focus)
