"""Small pictures: series as paths, a GPU as a column of slices, how much of a window has passed."""

import shlex
from collections.abc import Iterable

from django import template
from django.template.context import Context
from django.template.loader import get_template
from django.utils import timezone
from django.utils.safestring import SafeString
from psycopg2.extras import NumericRange

from portal.reservations.context import shell_of
from portal.reservations.day_rows import ROW_PX, DayRow
from portal.reservations.models import Lease
from portal.reservations.templatetags.berth_format import NOTHING, gib_number, share, slices

register = template.Library()

CHART_TOP, CHART_HEIGHT = 1, 30
GLYPH_HEIGHT = 40
CELLS_WIDTH = 64
COMMAND_SHOWN = 400


@register.simple_tag(takes_context=True)
def twice(context: Context, name: str) -> SafeString:
    """A part that a page has twice, for wide and for narrow screens: put together once."""
    kept = shell_of(context["request"]).parts
    if name not in kept:
        kept[name] = get_template(name).template.render(context)  # type: ignore[attr-defined]
    return kept[name]


@register.filter
def series(values: list[float | None] | None) -> str:
    """Samples for ``data-v``: comma between them, nothing for a gap."""
    return ",".join("" if value is None else f"{value:g}" for value in values or [])


@register.filter
def series_path(values: list[float | None] | None, high: float) -> str:
    """The line of a chart on a field of 100 x 32; what is None lifts the pen."""
    found, path, pen = values or [], "", False
    step = 100 / max(1, len(found) - 1)
    for place, value in enumerate(found):
        if value is None:
            pen = False
            continue
        y = CHART_TOP + CHART_HEIGHT * (1 - min(1.0, max(0.0, value / high if high else 0)))
        path += f"{'L' if pen else 'M'}{place * step:.1f} {y:.1f}{'' if pen else 'h0'}"
        pen = True
    return path


@register.filter
def newest(values: list[float | None] | None) -> str:
    """The last sample as a whole number, a dash when there is none."""
    last = values[-1] if values else None
    return NOTHING if last is None else f"{last:.0f}"


@register.filter
def newest_gib(values: list[float | None] | None) -> str:
    return gib_number(values[-1] if values else None)


@register.filter
def keyed(letter: str, number: int) -> str:
    return f"{letter}{number}"


@register.filter
def glyph_cells(lease: Lease) -> list[dict]:
    """One rectangle a slice, slice 0 at the bottom."""
    high = lease.gpu.memory_slices
    height = GLYPH_HEIGHT / high
    return [
        {
            "on": lease.span.lower <= number < lease.span.upper,
            "paler": number >= lease.gpu.compute_slices,
            "y": GLYPH_HEIGHT - (number + 1) * height + 0.5,
            "height": max(0.5, height - 1),
        }
        for number in range(high)
    ]


@register.filter
def passed(during) -> str:
    """How much of the window is over, as a percentage for SVG."""
    whole = (during.upper - during.lower).total_seconds()
    return share((timezone.now() - during.lower).total_seconds(), whole)


@register.filter
def day_height(rows: Iterable[DayRow]) -> int:
    return max(row.y for row in rows) + ROW_PX + 2


@register.filter
def half(value: float) -> float:
    return value / 2


@register.filter
def attr_whole(value: float) -> str:
    """A whole number for an attribute, in every language the same."""
    return str(round(value))


@register.filter
def gaps(points: int) -> str:
    """``data-v`` of a chart that fills only while it is watched."""
    return "," * (points - 1)


@register.filter
def command_line(command: list[str]) -> str:
    """An argument list as one would type it, cut where it gets long."""
    line = shlex.join(command)
    return line if len(line) <= COMMAND_SHOWN else f"{line[:COMMAND_SHOWN]}…"


@register.filter
def place_slices(place) -> str:
    return slices(NumericRange(place.start, place.end))


@register.filter
def cells(profile, profiles) -> list[dict]:
    """A profile as its share of the largest of its pool, at most 64 wide."""
    high = max((one.size for one in profiles), default=profile.size)
    width = CELLS_WIDTH / high
    return [
        {"on": number < profile.size, "x": number * width + 0.5, "width": max(0.5, width - 1.5)}
        for number in range(high)
    ]
