"""What a timeline's address asks for: zoom, day, filters. Nothing in it can be wrong, only ignored."""

import datetime as dt
import zoneinfo
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from portal.accounts.requests import number_in
from portal.ledger.folding import Day, days_of, midnight
from portal.reservations.canvas import Frame
from portal.reservations.templatetags.berth_format import day as day_words
from portal.reservations.templatetags.berth_format import hour

Zoom = Literal["day", "week", "month"]
ZOOMS: dict[str, Zoom] = {"day": "day", "week": "week", "month": "month"}
SORTS = ("window", "lease", "tenant", "profile", "where", "state")
BEHIND = dt.timedelta(hours=6)
EARLIEST, LATEST = dt.date(2000, 1, 1), dt.date(2999, 12, 1)


@dataclass(frozen=True)
class Asked:
    """``date`` is any day in what is shown; ``page`` counts groups of nodes from 1; ``sort`` may begin with a minus.

    ``rolling`` is the day around now: what has run lately and what comes next, whatever the hour.
    """

    zoom: Zoom
    date: dt.date
    pool_id: int | None
    node_id: int | None
    mine: bool
    table: bool
    sort: str
    page: int
    zone: zoneinfo.ZoneInfo
    rolling: bool = False

    @property
    def first(self) -> dt.date:
        if self.zoom == "week":
            return self.date - dt.timedelta(days=self.date.weekday())
        return self.date.replace(day=1) if self.zoom == "month" else self.date

    @property
    def last(self) -> dt.date:
        """The last day shown, included."""
        if self.zoom == "week":
            return self.first + dt.timedelta(days=6)
        if self.zoom == "month":
            return (self.first + dt.timedelta(days=32)).replace(day=1) - dt.timedelta(days=1)
        return self.date

    @property
    def frame(self) -> Frame:
        if self.rolling:
            since = _even_hour(timezone.now().astimezone(self.zone) - BEHIND)
            return Frame(since, since + dt.timedelta(days=1))
        return Frame(midnight(self.first, self.zone), midnight(self.last + dt.timedelta(days=1), self.zone))

    @property
    def days(self) -> list[Day]:
        return days_of(self.first, self.last, self.zone)

    @property
    def days_px(self) -> int:
        """Width of a month's bars in their own units: ten a day."""
        return 10 * len(self.days)

    @property
    def title(self) -> str:
        if self.zoom == "month":
            return date_format(self.first, pgettext("Django date format of a month", "F Y"))
        if self.zoom == "week":
            ends = {"first": day_words(self.frame.since), "last": day_words(self.days[-1].since)}
            return _("%(first)s to %(last)s") % ends
        if self.rolling:
            return _("%(since)s to %(until)s") % {
                "since": _day_and_hour(self.frame.since.astimezone(self.zone)),
                "until": _day_and_hour(self.frame.until.astimezone(self.zone)),
            }
        return day_words(self.frame.since)

    @property
    def earlier(self) -> "Asked":
        return replace(self, date=self.first - dt.timedelta(days=1), page=1, rolling=False)

    @property
    def later(self) -> "Asked":
        return replace(self, date=self.last + dt.timedelta(days=1), page=1, rolling=False)

    @property
    def today(self) -> "Asked":
        return replace(self, date=timezone.localdate(), page=1, rolling=self.zoom == "day")

    def zoomed(self, zoom: Zoom) -> "Asked":
        return replace(self, zoom=zoom, rolling=zoom == "day" and self.date == timezone.localdate())

    def sorted_by(self, column: str) -> "Asked":
        """By this column, or the other way round where it is that already."""
        return replace(self, sort=f"-{column}" if self.sort == column else column)

    @property
    def query(self) -> str:
        """The address of exactly this, after the question mark; what is the default is left out."""
        date = None if self.rolling else self.date.isoformat()
        shown = {"zoom": self.zoom, "date": date, "pool": self.pool_id, "node": self.node_id}
        shown |= {"mine": 1 if self.mine else None, "view": "table" if self.table else None}
        shown |= {"sort": self.sort if self.sort != "window" else None, "page": self.page if self.page > 1 else None}
        return urlencode({name: value for name, value in shown.items() if value is not None})


def asked(query: QueryDict) -> Asked:
    """Read an address; what makes no sense falls back to today, the day, everything."""
    sort = query.get("sort", "")
    zoom = ZOOMS.get(query.get("zoom", ""), "day")
    date = _date(query.get("date", ""))
    return Asked(
        zoom=zoom,
        date=date or timezone.localdate(),
        rolling=zoom == "day" and date is None,
        pool_id=number_in(query.get("pool", "")),
        node_id=number_in(query.get("node", "")),
        mine=query.get("mine") == "1",
        table=query.get("view") == "table",
        sort=sort if sort.removeprefix("-") in SORTS else "window",
        page=number_in(query.get("page", "")) or 1,
        zone=zoneinfo.ZoneInfo(timezone.get_current_timezone_name()),
    )


def _date(text: str) -> dt.date | None:
    try:
        date = dt.date.fromisoformat(text)
    except ValueError:
        return None
    return date if EARLIEST <= date <= LATEST else None


def _even_hour(when: dt.datetime) -> dt.datetime:
    return when.replace(hour=when.hour - when.hour % 2, minute=0, second=0, microsecond=0)


def _day_and_hour(when: dt.datetime) -> str:
    """The day always: beside another one, an hour alone would be read as of that day."""
    return _("%(day)s, %(time)s") % {"day": day_words(when), "time": hour(when)}
