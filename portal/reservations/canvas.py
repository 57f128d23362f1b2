"""The canvas of slices x time as pictures: leases and a window in, rectangles in SVG attributes out.

Horizontal positions are percentages of the window, vertical ones pixels, so that a canvas stretches without distorting
its text. Slice 0 is at the bottom. The same lease looks the same on every page.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.inventory.models import Gpu
from portal.reservations.context import Shell
from portal.reservations.models import Lease, LeaseState
from portal.reservations.templatetags.berth_format import day, hour, slices, window

MOVABLE = {LeaseState.PLANNED}
OVER = {LeaseState.ENDED, LeaseState.FAILED}
WIDE_PERCENT, NARROW_PERCENT = 7.0, 2.5
TICK_STEPS = (15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)  # minutes
NEAR_PERCENT = 7.0
WORDS_APART = " · "


@dataclass(frozen=True)
class Tick:
    """``near_now``: its label would lie under that of the now-line."""

    x: str
    label: str
    strong: bool
    near_now: bool = False

    @property
    def last(self) -> bool:
        """Its label would run over the right edge."""
        return float(self.x.removesuffix("%")) > 100 - NEAR_PERCENT


@dataclass(frozen=True)
class Frame:
    """The stretch of time that a canvas shows, from its left edge to its right one."""

    since: dt.datetime
    until: dt.datetime
    most_ticks: int = 9

    def at(self, when: dt.datetime) -> float:
        """Percent from the left edge; below 0 and above 100 outside."""
        return 100 * (when - self.since) / (self.until - self.since)

    def x(self, when: dt.datetime) -> str:
        return percentage(min(100.0, max(0.0, self.at(when))))

    def width(self, since: dt.datetime, until: dt.datetime) -> str:
        return percentage(max(0.0, min(100.0, self.at(until)) - max(0.0, self.at(since))))

    @property
    def ticks(self) -> list[Tick]:
        """Marks on full local hours or days; midnight carries the day."""
        minutes = (self.until - self.since) / dt.timedelta(minutes=1)
        step = dt.timedelta(minutes=next((s for s in TICK_STEPS if minutes / s <= self.most_ticks), TICK_STEPS[-1]))
        midnight = timezone.localtime(self.since).replace(hour=0, minute=0, second=0, microsecond=0)
        when = midnight + step * -(-(timezone.localtime(self.since) - midnight) // step)
        ticks, now = [], self.at(timezone.now())
        while when <= self.until:
            new_day = when.hour == 0 and when.minute == 0
            near = -NEAR_PERCENT < self.at(when) - now < NEAR_PERCENT / 2
            if _exists(when):
                ticks.append(Tick(self.x(when), day(when) if new_day else hour(when), new_day, near))
            when += step
        return ticks

    @property
    def now_x(self) -> str:
        """Where now is, or "" outside."""
        share = self.at(timezone.now())
        return percentage(share) if 0 <= share <= 100 else ""


def _exists(local: dt.datetime) -> bool:
    """Not in the hour that the clock leaves out: there a mark would lie under that of the hour after it."""
    return local.astimezone(dt.UTC).astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None)


@dataclass(frozen=True)
class Viewer:
    """Who looks: blue is what is theirs, names are shown only where they may see the tenant."""

    user_id: int | None
    own_tenant_ids: frozenset[int] = field(default_factory=frozenset)
    seen_tenant_ids: frozenset[int] = field(default_factory=frozenset)


def viewer_of(shell: Shell) -> Viewer:
    """Their own tenant is the one that the shell shows; those below keep their hues, or a root would see one colour."""
    own = frozenset({shell.tenant.pk} if shell.tenant else ())
    return Viewer(shell.request.user.pk, own, frozenset(tenant.pk for tenant in shell.tenants))


@dataclass(frozen=True)
class Rect:
    """One lease as it is drawn by parts/lease.html. ``words`` is the one text, for the ear and for the inspector."""

    lease_id: int
    key: str
    css: str
    pattern: str
    bar: bool
    label: str
    words: str
    href: str
    x: str
    width: str
    y: float
    height: float


def lease_rect(lease: Lease, frame: Frame, viewer: Viewer, *, row_px: float = 13, top_px: float = 0) -> Rect:
    """The rectangle of a lease on the canvas of its GPU; ``top_px`` is the y of its topmost slice.

    Reads reservation (tenant, profile, workload) and gpu (node): select them with the leases.
    """
    reservation = lease.reservation
    seen = reservation.tenant_id in viewer.seen_tenant_ids or reservation.owner_id == viewer.user_id
    css, pattern = _look(lease, viewer, seen)
    high = lease.gpu.memory_slices
    span, ends_at = lease.span, lease.ended_at or lease.during.upper
    share = min(100.0, frame.at(ends_at)) - max(0.0, frame.at(lease.during.lower))
    return Rect(
        lease_id=lease.pk,
        key=f"l{lease.pk}",
        css=css,
        pattern=pattern,
        bar=css.startswith("mine planned"),
        label=_label(lease, viewer, seen, share),
        words=lease_words(lease, seen),
        href=reverse("reservation", args=[reservation.pk]) if seen else "",
        x=frame.x(lease.during.lower),
        width=percentage(max(0.15, share)),
        y=top_px + (high - span.upper) * row_px,
        height=(span.upper - span.lower) * row_px - 1,
    )


def inspected(rects: Sequence[Rect]) -> dict:
    """What the inspector below a canvas shows before anything is chosen, and whether the key explains hidden leases."""
    first = next((rect for rect in rects if rect.css.startswith("mine")), rects[0] if rects else None)
    return {
        "first": first,
        "first_words": dict(enumerate(first.words.split(WORDS_APART))) if first else {},
        "hidden": any(rect.css.startswith("dim") for rect in rects),
    }


def lease_words(lease: Lease, seen: bool) -> str:
    """name · tenant · profile · place · window · state: what a screen reader says and the inspector splits."""
    reservation = lease.reservation
    place = _("%(node)s GPU %(index)d, %(slices)s") % {
        "node": lease.gpu.node.name,
        "index": lease.gpu.index,
        "slices": slices(lease.span),
    }
    who = [reservation.workload.name, reservation.tenant.name] if seen else [_("held"), "–"]
    about = [reservation.profile.name, place, window(lease.during), str(lease.get_state_display())]
    return WORDS_APART.join([*who, *about])


def _look(lease: Lease, viewer: Viewer, seen: bool) -> tuple[str, str]:
    reservation, phase = lease.reservation, _phase(lease)
    if reservation.owner_id == viewer.user_id:
        return f"mine{phase}", ""
    if reservation.tenant_id in viewer.own_tenant_ids:
        return f"ours{phase}", ""
    if not seen:
        return f"dim{phase}", ""
    return f"t{reservation.tenant.hue}{phase}", f"p{reservation.tenant.hue}"


def _phase(lease: Lease) -> str:
    if lease.state in OVER:
        return " ended"
    return " planned" if lease.state in MOVABLE and lease.frozen_at is None else ""


def _label(lease: Lease, viewer: Viewer, seen: bool, share: float) -> str:
    """Width decides what is drawn: name or code with the size, the code, nothing."""
    if share < NARROW_PERCENT:
        return ""
    reservation = lease.reservation
    if not seen:
        return reservation.profile.name if share >= WIDE_PERCENT else ""
    code = reservation.tenant.code
    if share < WIDE_PERCENT:
        return code
    first = reservation.workload.name if reservation.owner_id == viewer.user_id else code
    return f"{first} {reservation.profile.name}"


def percentage(share: float) -> str:
    return f"{share:.4g}%"


@dataclass(frozen=True)
class GpuCanvas:
    """The canvas of one GPU: parts/gpu_canvas.html draws it, with ``ghosts`` for what is asked."""

    gpu: Gpu
    frame: Frame
    rects: tuple[Rect, ...]
    ghosts: tuple["Ghost", ...] = ()
    row_px: int = 20
    head_px: int = 20

    @property
    def height(self) -> int:
        return self.head_px + self.gpu.memory_slices * self.row_px + 4

    @property
    def bottom(self) -> int:
        return self.head_px + self.gpu.memory_slices * self.row_px

    @property
    def rows(self) -> list[dict]:
        """One a slice, from 0 at the bottom; a slice that has memory but no compute of its own is paler."""
        high = self.gpu.memory_slices
        return [
            {
                "slice": number,
                "y": self.head_px + (high - 1 - number) * self.row_px,
                "text_y": self.head_px + (high - number) * self.row_px - 6,
                "paler": number >= self.gpu.compute_slices,
            }
            for number in range(high)
        ]


@dataclass(frozen=True)
class Ghost:
    """What is asked for, where it would sit."""

    x: str
    width: str
    y: float
    height: float
    title: str
    text: str


def gpu_canvas(gpu: Gpu, frame: Frame, leases: Iterable[Lease], viewer: Viewer, ghosts: Iterable[tuple]) -> GpuCanvas:
    """``ghosts`` are (start slice, end slice, since, until, title, text)."""
    canvas = GpuCanvas(gpu, frame, ())
    rects = tuple(lease_rect(lease, frame, viewer, row_px=canvas.row_px, top_px=canvas.head_px) for lease in leases)
    drawn = tuple(
        Ghost(
            frame.x(since),
            frame.width(since, until),
            canvas.head_px + (gpu.memory_slices - end) * canvas.row_px,
            (end - start) * canvas.row_px - 1,
            title,
            text,
        )
        for start, end, since, until, title, text in ghosts
    )
    return GpuCanvas(gpu, frame, rects, drawn)
