"""The bars of a usage page: slice-time by day, as attributes of SVG."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.formats import number_format

from portal.ledger.folding import Day
from portal.reports.figures import MS, Figures

BASE_PX, TOP_PX = 152, 12
LEFT_PERCENT, WIDTH_PERCENT = 0.4, 99.0
HOUR = 3600
STEPS = (1, 2, 5)
LABELS_MOST = 8


@dataclass(frozen=True)
class Part:
    """A piece of a bar; ``css`` is a class, ``fill`` a pattern where one is needed."""

    css: str
    fill: str
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    x: str
    width: str
    label: str
    today: bool
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Chart:
    """``lines`` are (label, y) of the grid, from 0 up."""

    bars: tuple[Bar, ...]
    lines: tuple[tuple[str, float], ...]
    base: int = BASE_PX


def chart_of(by_day: Sequence[tuple[Day, Figures]], today: dt.date) -> Chart:
    """One bar a day; used is at the bottom, then idle, not measurable, not running and committed."""
    tops = [max(figures.reserved, figures.running + figures.committed) for _, figures in by_day]
    step = _step(max(tops, default=0))
    count = max(1, -(-max(tops, default=0) // step))
    px = (BASE_PX - TOP_PX) / (count * step)
    wide = WIDTH_PERCENT / len(by_day)
    every = -(-len(by_day) // LABELS_MOST)
    bars = tuple(
        Bar(
            x=f"{LEFT_PERCENT + index * wide:.4g}%",
            width=f"{wide * 0.75:.4g}%",
            label=_label(index, day.date, every, today),
            today=day.date == today,
            parts=_parts(figures, px),
        )
        for index, (day, figures) in enumerate(by_day)
    )
    marks = [line * step for line in range(count + 1)]
    lines = [(number_format(mark // HOUR, force_grouping=True), round(BASE_PX - mark * px, 1)) for mark in marks]
    return Chart(bars, tuple(lines))


def _step(most: int) -> int:
    """Seconds between two lines of the grid: 1, 2 or 5 times a power of ten hours, at most four lines."""
    size = HOUR
    while True:
        for factor in STEPS:
            if most <= 4 * factor * size:
                return factor * size
        size *= 10


def _label(index: int, date: dt.date, every: int, today: dt.date) -> str:
    if date == today:
        return str(date.day)
    near = abs((date - today).days) < every
    return str(date.day) if index % every == 0 and not near else ""


def _parts(figures: Figures, px: float) -> tuple[Part, ...]:
    amounts = (
        ("f-used", "", figures.used_ms / MS),
        ("f-idle", "", figures.idle_ms / MS),
        ("", "url(#nm)", figures.unmeasured_ms / MS),
        ("f-rest", "", figures.not_running),
        ("com", "", figures.committed),
    )
    parts, top = [], float(BASE_PX)
    for css, fill, seconds in amounts:
        height = seconds * px
        if height < 0.1:
            continue
        top -= height
        parts.append(Part(css, fill, round(top, 1), round(height, 1)))
    return tuple(parts)
