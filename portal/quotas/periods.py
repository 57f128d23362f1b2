"""The calendar periods of budgets: whole months, quarters and years in the time zone of the budget's tenant."""

import datetime as dt
import zoneinfo
from dataclasses import dataclass

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from portal.ledger.folding import midnight
from portal.quotas.models import Budget, Period

MONTHS = {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: 12}


@dataclass(frozen=True)
class PeriodBounds:
    """``[since, until)`` between two local midnights; ``first`` is the first local day."""

    kind: Period
    first: dt.date
    since: dt.datetime
    until: dt.datetime

    def __str__(self) -> str:
        if self.kind == Period.YEAR:
            return str(self.first.year)
        if self.kind == Period.QUARTER:
            return _("quarter %(quarter)d of %(year)d") % {
                "quarter": self.first.month // 3 + 1,
                "year": self.first.year,
            }
        return date_format(self.first, pgettext("Django date format of a month", "F Y"))


def period_at(budget: Budget, at: dt.datetime) -> PeriodBounds:
    """The budget's period that the instant lies in."""
    kind = Period(budget.period)
    zone = zoneinfo.ZoneInfo(budget.tenant.time_zone)
    months = MONTHS[kind]
    local = at.astimezone(zone).date()
    first = dt.date(local.year, (local.month - 1) // months * months + 1, 1)
    index = first.year * 12 + first.month - 1 + months
    following = dt.date(index // 12, index % 12 + 1, 1)
    return PeriodBounds(kind, first, midnight(first, zone), midnight(following, zone))


def periods_met(budget: Budget, since: dt.datetime, until: dt.datetime) -> list[PeriodBounds]:
    """Every period of the budget that ``[since, until)`` meets, in order."""
    found = [period_at(budget, since)]
    while found[-1].until < until:
        found.append(period_at(budget, found[-1].until))
    return found
