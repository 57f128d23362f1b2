"""One reader's reservations over a day, as bars on a canvas without slices."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from portal.reservations.canvas import Frame
from portal.reservations.models import Reservation, State
from portal.reservations.templatetags.berth_format import state_word, window

ROW_PX, TOP_PX = 24, 20
GAP = dt.timedelta(minutes=5)
OVER = [State.ENDED, State.CANCELLED, State.REFUSED]


@dataclass(frozen=True)
class DayRow:
    css: str
    bar: bool
    href: str
    words: str
    label: str
    x: str
    width: str
    y: int


def day_rows(found: Iterable[Reservation], frame: Frame, most: int) -> list[DayRow]:
    """The first ``most`` that lie in the day, from the earliest; what is open goes before what is over.

    A row takes what begins once all before it there are over: never two that are open.
    """
    inside = [one for one in found if one.during.upper > frame.since and one.during.lower < frame.until]
    kept = sorted(inside, key=lambda one: one.state in OVER)[:most]
    kept.sort(key=lambda one: one.during.lower)
    free_from: list[dt.datetime] = []
    rows = []
    for one in kept:
        number = next((row for row, free in enumerate(free_from) if free <= one.during.lower), len(free_from))
        free_from[number:number + 1] = [_ends_at(one) + GAP if one.state in OVER else frame.until]
        rows.append(_row(one, frame, TOP_PX + number * ROW_PX))
    return rows


def _ends_at(one: Reservation) -> dt.datetime:
    return min(one.during.upper, one.ended_at or one.during.upper)


def _row(one: Reservation, frame: Frame, y: int) -> DayRow:
    size = one.profile.name if one.ranks == 1 else f"{one.ranks} × {one.profile.name}"
    ends_at = _ends_at(one)
    css = "dim ended" if one.state in OVER else "mine" if one.state == State.RUNNING else "mine planned"
    wide = frame.at(ends_at) - max(0.0, frame.at(one.during.lower)) > 8
    words = [one.workload.name, one.tenant.name, size, one.pool.name, window(one.during), state_word(one)]
    return DayRow(
        css=css,
        bar=css == "mine planned",
        href=reverse("reservation", args=[one.pk]),
        words=" · ".join(words),
        label=_("%(name)s %(size)s") % {"name": one.workload.name, "size": size} if wide else "",
        x=frame.x(one.during.lower),
        width=frame.width(one.during.lower, ends_at),
        y=y,
    )
