"""The periods a usage page may show: whole days of the tenant's zone, a year at most."""

import datetime as dt
import zoneinfo
from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.ledger.folding import Day, days_of, midnight

DAYS_MOST = 366
EARLIEST = dt.date(2000, 1, 1)
LATEST = dt.date(2999, 12, 31)


class Choice(TextChoices):
    THIS_MONTH = "this-month", gettext_lazy("This month")
    LAST_MONTH = "last-month", gettext_lazy("Last month")
    LAST_30_DAYS = "last-30-days", gettext_lazy("Last 30 days")
    CUSTOM = "custom", gettext_lazy("Other dates")


class PeriodRefused(Exception):
    """The dates make no period; the text says why."""


@dataclass(frozen=True)
class Span:
    """Days from ``first`` to ``last``, both included, in ``zone``."""

    choice: Choice
    first: dt.date
    last: dt.date
    zone: zoneinfo.ZoneInfo

    @property
    def days(self) -> list[Day]:
        return days_of(self.first, self.last, self.zone)

    @property
    def since(self) -> dt.datetime:
        return midnight(self.first, self.zone)

    @property
    def until(self) -> dt.datetime:
        return midnight(self.last + dt.timedelta(days=1), self.zone)


def period_of(choice: str, first: str, last: str, today: dt.date, zone: zoneinfo.ZoneInfo) -> Span:
    """The chosen period; an unknown choice is this month. Raises :class:`PeriodRefused` for dates that make none."""
    if choice == Choice.LAST_MONTH:
        before = today.replace(day=1) - dt.timedelta(days=1)
        return Span(Choice.LAST_MONTH, before.replace(day=1), before, zone)
    if choice == Choice.LAST_30_DAYS:
        return Span(Choice.LAST_30_DAYS, today - dt.timedelta(days=29), today, zone)
    if choice == Choice.CUSTOM:
        return _custom(first, last, zone)
    following = (today.replace(day=1) + dt.timedelta(days=32)).replace(day=1)
    return Span(Choice.THIS_MONTH, today.replace(day=1), following - dt.timedelta(days=1), zone)


def _custom(first: str, last: str, zone: zoneinfo.ZoneInfo) -> Span:
    since, until = _date(first), _date(last)
    if until < since:
        raise PeriodRefused(_("The last day lies before the first."))
    if (until - since).days >= DAYS_MOST:
        raise PeriodRefused(_("A period is %(days)d days at most.") % {"days": DAYS_MOST})
    return Span(Choice.CUSTOM, since, until, zone)


def _date(text: str) -> dt.date:
    try:
        date = dt.date.fromisoformat(text)
    except ValueError:
        raise PeriodRefused(_("Give both days as year-month-day.")) from None
    if not EARLIEST <= date <= LATEST:
        raise PeriodRefused(_("Give both days as year-month-day."))
    return date
