"""Events as an iCalendar file (RFC 5545). The same events give the same bytes."""

import datetime as dt
import hashlib
import unicodedata
from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from icalendar import Calendar, Event

from portal.reservations.calendar_entries import Entry, entries_of
from portal.reservations.models import CalendarFeed

FORMAT = 1  # part of every tag: raise it when the same events are written differently
ASK_AGAIN_AFTER = dt.timedelta(minutes=15)
BREAKS = {"Cc", "Zl", "Zp"}


class FeedContent:
    """What one feed shows now. The ``tag`` is known without writing the file, which takes far longer."""

    def __init__(self, feed: CalendarFeed, now: dt.datetime):
        with translation.override(feed.owner.language):
            self.title = _title(feed)
            self.entries = entries_of(feed, now)
        said = repr((FORMAT, settings.PORTAL_URL, feed.pk, self.title, self.entries))
        self.tag = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    def file(self) -> bytes:
        return written(self.title, self.entries)


def written(title: str, entries: Iterable[Entry]) -> bytes:
    calendar = Calendar()
    calendar.add("prodid", "-//Berth//Berth//EN")
    calendar.add("version", "2.0")
    calendar.add("calscale", "GREGORIAN")
    calendar.add("x-wr-calname", one_line(title))
    calendar.add("refresh-interval", ASK_AGAIN_AFTER, parameters={"VALUE": "DURATION"})
    for entry in entries:
        calendar.add_component(_event(entry))
    return calendar.to_ical()


def _event(entry: Entry) -> Event:
    event = Event()
    event.add("uid", f"{entry.key}@{urlsplit(settings.PORTAL_URL).hostname}")
    event.add("sequence", entry.sequence)
    changed_at = entry.changed_at.astimezone(dt.UTC).replace(microsecond=0)
    event.add("dtstamp", changed_at)
    event.add("last-modified", changed_at)
    event.add("dtstart", entry.start.astimezone(dt.UTC).replace(microsecond=0))
    event.add("dtend", entry.end.astimezone(dt.UTC).replace(microsecond=0))
    event.add("summary", one_line(entry.summary))
    event.add("description", "\n".join(one_line(line) for line in entry.lines))
    event.add("status", entry.status)
    event.add("transp", "TRANSPARENT")  # a machine is taken, not its owner's time
    event.add("url", settings.PORTAL_URL + reverse(entry.url_name, args=[entry.url_id]))
    return event


def one_line(text: str) -> str:
    """What people typed, with everything that could end a line as a blank: a bare CR is no newline to the writer, but
    is one to some readers."""
    return "".join(" " if unicodedata.category(char) in BREAKS else char for char in text)


def _title(feed: CalendarFeed) -> str:
    shown = feed.tenant or feed.node
    return f"Berth: {shown}" if shown else _("Berth: my reservations")
