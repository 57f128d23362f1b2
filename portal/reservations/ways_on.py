"""Alternatives as the reserve page shows them: a small picture, what differs, the price, one button."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Profile
from portal.reservations.alternatives import Alternative
from portal.reservations.templatetags.berth_format import duration, gib, slice_h, window

MINI_WIDTH, MINI_HEIGHT = 72, 44


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class WayOn:
    """``value`` is what the button sends: the form books exactly this, whatever else it says."""

    title: str
    text: str
    value: str
    asked: Box
    offered: Box


def ways_on(
    profile: Profile, ranks: int, during: DateTimeTZRange, alternatives: Iterable[Alternative]
) -> tuple[WayOn, ...]:
    return tuple(
        WayOn(_title(one), _text(one, during), _value(one), *_boxes(profile, during, one)) for one in alternatives
    )


def _value(one: Alternative) -> str:
    since, until = int(one.during.lower.timestamp()), int(one.during.upper.timestamp())
    return f"{one.pool.pk}.{one.profile.pk}.{one.ranks}.{since}.{until}"


def _title(one: Alternative) -> str:
    told = {
        "window": window(one.during),
        "profile": one.profile.name,
        "pool": one.pool.name,
        "ranks": one.ranks,
    }
    sentences = {
        "earlier": _("Same size, %(window)s"),
        "later": _("Same size, %(window)s"),
        "shorter": _("Shorter, %(window)s"),
        "fewer": _("%(ranks)d × %(profile)s, %(window)s"),
        "other_pool": _("%(profile)s in %(pool)s, %(window)s"),
    }
    return sentences.get(one.kind, _("%(profile)s, %(window)s")) % told


def _text(one: Alternative, during: DateTimeTZRange) -> str:
    told = {
        "node": one.placements[0].gpu.node.name if one.placements else "–",
        "memory": gib(one.profile.memory_mib),
        "price": slice_h(one.price_slice_seconds),
        "length": duration(abs((one.during.lower - during.lower).total_seconds())),
    }
    if one.kind == "later":
        return _("%(length)s later, %(node)s, %(price)s") % told
    if one.kind == "earlier":
        return _("%(length)s earlier, %(node)s, %(price)s") % told
    return _("%(memory)s, %(node)s, %(price)s") % told


def _boxes(profile: Profile, during: DateTimeTZRange, one: Alternative) -> tuple[Box, Box]:
    """Asked and offered on one small canvas: time to the right, slices up."""
    since, until = min(during.lower, one.during.lower), max(during.upper, one.during.upper)
    scale = (MINI_WIDTH - 8) / (until - since).total_seconds()
    place = one.placements[0] if one.placements else None
    high = place.gpu.memory_slices if place else max(profile.size, one.profile.size)
    low = place.start if place else 0

    def box(window_: DateTimeTZRange, size: int, inset: float) -> Box:
        size, start = min(size, high), min(low, max(0, high - size))
        step = MINI_HEIGHT / high
        return Box(
            x=round(4 + (window_.lower - since).total_seconds() * scale + inset, 1),
            y=round(MINI_HEIGHT - (start + size) * step + inset, 1),
            width=round(max(3.0, (window_.upper - window_.lower).total_seconds() * scale - 2 * inset), 1),
            height=round(max(2.0, size * step - 2 * inset), 1),
        )

    return box(during, profile.size, 1), box(one.during, one.profile.size, 0)
