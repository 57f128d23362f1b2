"""The dates of a series and the windows of its occurrences by the local clock. Pure: no table is read.

A rule is a subset of RFC 5545's RRULE, counted in local dates. What lies outside the subset is refused with the reason.
"""

import datetime as dt
import itertools
import re
import zoneinfo
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dateutil import rrule
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.reservations.errors import ReservationRefused, WindowRefused
from portal.reservations.windows import local_time, make_window

FREQUENCIES = {"DAILY": rrule.DAILY, "WEEKLY": rrule.WEEKLY, "MONTHLY": rrule.MONTHLY}
WEEKDAYS = {str(day): day for day in rrule.weekdays}
WEEKDAY = re.compile(r"([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)")
NUMBER = re.compile(r"[0-9]{1,4}")
DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
MOST_OCCURRENCES = 200
MOST_INTERVAL = 99
MOST_DAYS = 31
# No series reaches farther from its first date: one that never occurs again is found out.
FARTHEST = dt.timedelta(days=1096)
LAST_FIRST_DATE = dt.date(8990, 1, 1)


class RuleRefused(ReservationRefused):
    code = "rule_refused"
    status = 422


@dataclass(frozen=True)
class Rule:
    """``weekdays`` as in RFC 5545: MO, or 2TU and -1FR for the second Tuesday and the last Friday of a month."""

    frequency: str
    interval: int = 1
    weekdays: tuple[str, ...] = ()
    count: int | None = None
    until: dt.date | None = None

    def __str__(self) -> str:
        parts = [f"FREQ={self.frequency}", f"INTERVAL={self.interval}" if self.interval > 1 else ""]
        parts += [f"BYDAY={','.join(self.weekdays)}" if self.weekdays else ""]
        parts += [f"COUNT={self.count}" if self.count else f"UNTIL={self.until:%Y%m%d}"]
        return ";".join(filter(None, parts))


@dataclass(frozen=True)
class Clock:
    """From ``opens`` on a date until ``closes`` that many ``days`` later, as the clocks of the zone read."""

    zone: zoneinfo.ZoneInfo
    opens: dt.time
    closes: dt.time
    days: int = 0

    def window_on(self, date: dt.date) -> DateTimeTZRange:
        """In UTC; raises :class:`WindowRefused` where an hour does not exist or exists twice."""
        if not 0 <= self.days <= MOST_DAYS:
            raise WindowRefused(_("One occurrence ends at most %(most)d days after it begins.") % {"most": MOST_DAYS},
                                {"most": MOST_DAYS}, field="end")  # fmt: skip
        if self.days == 0 and self.closes <= self.opens:
            raise WindowRefused(_("The end must be after the start. Does it end the day after?"), field="end")
        start = local_time(date, self.opens, self.zone, "start")
        return make_window(start, local_time(date + dt.timedelta(days=self.days), self.closes, self.zone, "end"))


@dataclass(frozen=True)
class Occurrence:
    """One date of a series. Where the clock change makes its hours a question, that stands instead of a window."""

    date: dt.date
    during: DateTimeTZRange | None
    question: WindowRefused | None = None


def parse_rule(text: str) -> Rule:
    """``FREQ=WEEKLY;BYDAY=MO,WE;COUNT=15``; raises :class:`RuleRefused` for what is not understood."""
    parts = _parts(text)
    frequency = parts.pop("FREQ", "")
    if frequency not in FREQUENCIES:
        raise _refused(_("FREQ is one of %(known)s.") % {"known": ", ".join(FREQUENCIES)})
    count, until = parts.pop("COUNT", None), parts.pop("UNTIL", None)
    if (count is None) == (until is None):
        raise _refused(_("A rule ends: give either COUNT or UNTIL."))
    rule = Rule(
        frequency=frequency,
        interval=_number("INTERVAL", parts.pop("INTERVAL", "1"), MOST_INTERVAL),
        weekdays=_weekdays(parts.pop("BYDAY", ""), frequency),
        count=None if count is None else _number("COUNT", count, MOST_OCCURRENCES),
        until=None if until is None else _date(until),
    )
    if parts.pop("WKST", "MO") != "MO":
        raise _refused(_("Weeks begin on Monday: leave WKST out."))
    if parts:
        raise _refused(_("%(part)s is not understood. A rule says FREQ, INTERVAL, BYDAY, and COUNT or UNTIL.")
                       % {"part": next(iter(parts))[:40]})  # fmt: skip
    return rule


def _parts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.strip().upper().removeprefix("RRULE:").rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value or name in found:
            raise _refused(_("“%(part)s” is no part of a rule. Write it as in %(example)s.")
                           % {"part": part[:40], "example": "FREQ=WEEKLY;BYDAY=MO;COUNT=15"})  # fmt: skip
        found[name] = value
    return found


def _number(name: str, text: str, most: int) -> int:
    if not NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        raise _refused(_("%(name)s is a whole number from 1 to %(most)d.") % {"name": name, "most": most}, most=most)
    return int(text)


def _weekdays(text: str, frequency: str) -> tuple[str, ...]:
    if not text:
        return ()
    days = tuple(dict.fromkeys(day.removeprefix("+") for day in text.split(",")))
    for day in days:
        known = WEEKDAY.fullmatch(day)
        if known is None:
            raise _refused(_("“%(day)s” is no day: write MO, TU, WE, TH, FR, SA or SU.") % {"day": day[:20]})
        if known[1] and frequency != "MONTHLY":
            raise _refused(_("%(day)s counts days of a month: use it with FREQ=MONTHLY.") % {"day": day})
    return days


def _date(text: str) -> dt.date:
    known = DATE.fullmatch(text)
    try:
        year, month, day = map(int, known.groups() if known else ())
        return dt.date(year, month, day)
    except ValueError as error:
        raise _refused(_("UNTIL is the last date, as in 20261218.")) from error


def _refused(sentence: str, **evidence: int) -> RuleRefused:
    return RuleRefused(sentence, evidence, field="rule")


def dates_of(rule: Rule, first_date: dt.date) -> list[dt.date]:
    """In order, none before ``first_date``; raises :class:`RuleRefused` for none and for more than are taken."""
    if first_date > LAST_FIRST_DATE:
        raise WindowRefused(_("That date is too far away."), field="first_date")
    reach = first_date + FARTHEST
    wanted = rule.count or MOST_OCCURRENCES + 1
    found = list(itertools.islice(_endless(rule, first_date, min(rule.until or reach, reach)), wanted))
    if not found:
        raise _refused(_("There is no such date from %(first)s on.") % {"first": first_date})
    if len(found) > MOST_OCCURRENCES:
        raise _refused(_("A series has at most %(most)d occurrences.") % {"most": MOST_OCCURRENCES},
                       most=MOST_OCCURRENCES)  # fmt: skip
    if (rule.count and len(found) < rule.count) or (rule.until and rule.until > reach):
        raise _refused(_("A series ends at most %(most)d days after its first date.") % {"most": FARTHEST.days},
                       most=FARTHEST.days)  # fmt: skip
    return found


def _endless(rule: Rule, first_date: dt.date, last: dt.date) -> Iterator[dt.date]:
    start, end = (dt.datetime.combine(date, dt.time()) for date in (first_date, last))
    found = rrule.rrule(
        FREQUENCIES[rule.frequency], dtstart=start, interval=rule.interval, byweekday=_days(rule.weekdays) or None,
        until=end)  # fmt: skip
    return (at.date() for at in found)


def _days(weekdays: Collection[str]) -> list[rrule.weekday]:
    """dateutil takes only what is both among the plain and among the counted days, so all are counted or none is."""
    counted = any(len(day) > 2 for day in weekdays)
    found = []
    for day in weekdays:
        known = WEEKDAYS[day[-2:]]
        numbers = [int(day[:-2])] if len(day) > 2 else range(1, 6)
        found += [known(number) for number in numbers] if counted else [known]
    return found


def occurrence_on(date: dt.date, clock: Clock) -> Occurrence:
    """Raises for times that fit no date at all; a question about this date alone is handed back with it."""
    try:
        return Occurrence(date, clock.window_on(date))
    except WindowRefused as refusal:
        if "zone" not in refusal.evidence:
            raise
        return Occurrence(date, None, refusal)


def occurrences_of(
    rule: Rule, first_date: dt.date, clock: Clock, exceptions: Collection[dt.date] = ()
) -> list[Occurrence]:
    """COUNT counts the exceptions too, as in RFC 5545. Raises :class:`RuleRefused` when nothing is left."""
    dates = [date for date in dates_of(rule, first_date) if date not in exceptions]
    if not dates:
        raise _refused(_("Every date of the series is an exception."))
    return [occurrence_on(date, clock) for date in dates]
