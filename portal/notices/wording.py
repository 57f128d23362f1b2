"""A notice in words: in the language and the zone that are active, or in those of one reader."""

import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.template import Context, Engine
from django.utils import timezone, translation
from django.utils.dateparse import parse_datetime

from portal.notices.models import Notice


@dataclass(frozen=True)
class Words:
    """Plain text, one line each; ``text`` may be empty."""

    title: str
    text: str


def words_of(notice: Notice) -> Words:
    """What the notice says. The words of its kind leave out what they have no fact for."""
    template = Engine.get_default().get_template(f"notices/kinds/{notice.kind}.txt")
    spoken = template.render(Context(_facts_of(notice), autoescape=False))
    title, *sentences = filter(None, (" ".join(line.split()) for line in spoken.splitlines()))
    return Words(title, " ".join(sentences))


def number_of(notice: Notice) -> str:
    """How people call the reservation that it is about, R-20418, or "" when it is about none."""
    return f"R-{notice.reservation_id}" if notice.reservation_id else ""


@contextmanager
def as_reader(person: Any) -> Iterator[None]:
    """Within, texts and times are those of this person (a User)."""
    with translation.override(person.language), timezone.override(zone_of(person.time_zone)):
        yield


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """UTC for a zone that this machine's database no longer has."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return zoneinfo.ZoneInfo("UTC")


def _facts_of(notice: Notice) -> dict[str, Any]:
    facts = {name: _read(name, value) for name, value in notice.facts.items()}
    return facts | {"name": facts.get("name") or number_of(notice)}


def _read(name: str, value: Any) -> Any:
    if name.endswith("_at"):
        return parse_datetime(value)
    return " ".join(value.split()) if isinstance(value, str) else value
