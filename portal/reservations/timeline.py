"""The timeline: the canvas of every GPU asked for, one below the other, over the same stretch of time."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, GpuState, Node, NodeState
from portal.ledger.folding import Day, days_met, seconds_within
from portal.reservations.canvas import Frame, Rect, Viewer, lease_rect, percentage
from portal.reservations.closures import drawn_maintenance
from portal.reservations.models import Lease, LeaseState, Maintenance
from portal.reservations.timeline_asked import Asked
from portal.tenants.models import Tenant

GPUS_A_PAGE = 64
LEASES_MOST = 1000
HEAD_PX, GAP_PX, NODE_PX, SLICE_PX, GPU_LEAST_PX, MONTH_PX = 24, 10, 20, 13, 39, 36
OVER = [LeaseState.ENDED, LeaseState.FAILED]


@dataclass(frozen=True)
class Closed:
    """Time in which a GPU takes no new lease, and the word that says why."""

    word: str
    x: str
    width: str


@dataclass(frozen=True)
class Line:
    """One GPU on the canvas; ``node`` is set on the first of each node, which has a heading above it."""

    gpu: Gpu
    node: Node | None
    y: int
    row_px: int
    rects: tuple[Rect, ...]
    closed: tuple[Closed, ...]

    @property
    def height(self) -> int:
        return self.gpu.memory_slices * self.row_px

    @property
    def name_y(self) -> int:
        return self.y + 13

    @property
    def node_y(self) -> int:
        return self.y - 6

    @property
    def cells(self) -> list[tuple[int, bool]]:
        """y and paleness of each slice; a slice without compute of its own is paler."""
        high = self.gpu.memory_slices
        return [(self.y + (high - 1 - n) * self.row_px, n >= self.gpu.compute_slices) for n in range(high)]

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """Slice numbers written at the left, with their y: the lowest, the middle and the highest."""
        high = self.gpu.memory_slices
        shown = {0, high // 2 - 1, high - 1} if high >= 4 else set()
        return [(number, self.y + (high - number) * self.row_px - 3) for number in sorted(shown)]


@dataclass(frozen=True)
class Picture:
    """Everything a timeline page draws."""

    lines: tuple[Line, ...]
    height: int
    leases: tuple[Lease, ...]
    cut: bool
    pages: int


def node_pages(pool_id: int | None, node_id: int | None) -> list[list[int]]:
    """Ids of the nodes of each page: whole nodes, in order of name, up to 64 GPUs a page."""
    gpus = Gpu.objects.filter(present=True).exclude(node__state=NodeState.RETIRED)
    if pool_id is not None:
        gpus = gpus.filter(pool_id=pool_id)
    if node_id is not None:
        gpus = gpus.filter(node_id=node_id)
    counts: dict[int, int] = defaultdict(int)
    for node in gpus.order_by("node__name").values_list("node_id", flat=True):
        counts[node] += 1
    pages: list[list[int]] = []
    room = 0
    for node, count in counts.items():
        if not pages or count > room:
            pages.append([])
            room = GPUS_A_PAGE
        pages[-1].append(node)
        room -= count
    return pages


def gpus_shown(asked: Asked, node_ids: Sequence[int]) -> list[Gpu]:
    gpus = Gpu.objects.filter(present=True, node__in=node_ids).select_related("node")
    if asked.pool_id is not None:
        gpus = gpus.filter(pool_id=asked.pool_id)
    return list(gpus.order_by("node__name", "index")[:GPUS_A_PAGE])


def leases_shown(asked: Asked, gpus: Iterable[Gpu], viewer: Viewer) -> QuerySet[Lease]:
    """Leases that held, hold or will hold a span of these GPUs in the frame; what never began is left out."""
    frame = asked.frame
    rows = Lease.objects.filter(gpu__in=gpus, during__overlap=DateTimeTZRange(frame.since, frame.until))
    rows = rows.exclude(Q(state__in=OVER) & (Q(ended_at__lte=F("during__startswith")) | Q(ended_at__lte=frame.since)))
    if asked.mine:
        rows = rows.filter(reservation__owner_id=viewer.user_id)
    return rows


def picture(asked: Asked, viewer: Viewer, now: dt.datetime) -> Picture:
    """The canvas for a day or a week. Five queries, whatever the number of GPUs and leases."""
    pages = node_pages(asked.pool_id, asked.node_id)
    gpus = gpus_shown(asked, pages[min(asked.page, len(pages)) - 1]) if pages else []
    rows = leases_shown(asked, gpus, viewer).select_related(
        "reservation__tenant", "reservation__profile", "reservation__workload", "gpu__node"
    )
    leases = tuple(rows.order_by("during__startswith", "pk")[: LEASES_MOST + 1])
    lines, height = _lines(gpus, leases[:LEASES_MOST], asked.frame, viewer, now)
    return Picture(lines, height, leases[:LEASES_MOST], len(leases) > LEASES_MOST, len(pages))


def _lines(
    gpus: Sequence[Gpu], leases: Sequence[Lease], frame: Frame, viewer: Viewer, now: dt.datetime
) -> tuple[tuple[Line, ...], int]:
    held: dict[int, list[Lease]] = defaultdict(list)
    for lease in leases:
        held[lease.gpu_id].append(lease)
    lines, y, node_id = [], HEAD_PX, None
    maintenance = drawn_maintenance(gpus, DateTimeTZRange(frame.since, frame.until))
    for gpu in gpus:
        first = gpu.node_id != node_id
        y += NODE_PX if first else 0
        row_px = max(SLICE_PX, GPU_LEAST_PX // gpu.memory_slices)
        rects = tuple(lease_rect(lease, frame, viewer, row_px=row_px, top_px=y) for lease in held[gpu.pk])
        closed = closed_on(gpu, frame, now, maintenance[gpu.pk])
        lines.append(Line(gpu, gpu.node if first else None, y, row_px, rects, closed))
        y += gpu.memory_slices * row_px + GAP_PX
        node_id = gpu.node_id
    return tuple(lines), y


def closed_on(
    gpu: Gpu, frame: Frame, now: dt.datetime, maintenance: Iterable[Maintenance] = ()
) -> tuple[Closed, ...]:
    """Its maintenance, and from now on, as far as anybody knows, while the node or the GPU takes no new lease."""
    planned = tuple(
        Closed(_("Maintenance: %(reason)s") % {"reason": one.reason}, frame.x(one.during.lower),
               frame.width(one.during.lower, one.ended_at or one.during.upper))
        for one in maintenance
    )  # fmt: skip
    word = _closed_word(gpu)
    if not word or now >= frame.until:
        return planned
    since = max(now, frame.since)
    return (*planned, Closed(word, frame.x(since), frame.width(since, frame.until)))


def _closed_word(gpu: Gpu) -> str:
    if gpu.node.state == NodeState.MAINTENANCE and not gpu.node.by_plan:
        return _("Maintenance")
    if gpu.state == GpuState.FAULTY:
        return _("Out of service: %(fault)s") % {"fault": gpu.fault} if gpu.fault else _("Out of service")
    if gpu.node.silent_since:
        return _("Silent")
    taken = gpu.node.state == NodeState.READY or gpu.node.by_plan
    return "" if taken else str(gpu.node.get_state_display()).capitalize()


@dataclass(frozen=True)
class MonthLine:
    """One GPU's share held by day: ``path`` draws what was held, ``ahead`` what is planned, ``text`` says both."""

    gpu: Gpu
    node: Node | None
    y: int
    path: str
    ahead: str
    text: str

    @property
    def base_y(self) -> float:
        return self.y + MONTH_PX + 0.5

    @property
    def node_y(self) -> int:
        return self.y - 6


def month_lines(asked: Asked, viewer: Viewer, now: dt.datetime) -> tuple[list[MonthLine], int, int]:
    """Lines, the height of the picture and the number of pages. Three queries."""
    pages = node_pages(asked.pool_id, asked.node_id)
    gpus = gpus_shown(asked, pages[min(asked.page, len(pages)) - 1]) if pages else []
    held = slice_seconds_by_day(leases_shown(asked, gpus, viewer), asked.days)
    lines, y, node_id = [], HEAD_PX, None
    for gpu in gpus:
        first = gpu.node_id != node_id
        y += NODE_PX if first else 0
        lines.append(_month_line(gpu, gpu.node if first else None, y, held, asked.days, now))
        y += MONTH_PX + GAP_PX
        node_id = gpu.node_id
    return lines, y, len(pages)


def slice_seconds_by_day(leases: QuerySet[Lease], days: Sequence[Day]) -> dict[tuple[int, dt.date], int]:
    """Memory-slice-seconds held on each GPU and day; an ended lease counts until it ended."""
    held: dict[tuple[int, dt.date], int] = defaultdict(int)
    for gpu_id, span, during, ended_at in leases.values_list("gpu_id", "span", "during", "ended_at"):
        until = min(during.upper, ended_at) if ended_at else during.upper
        for day in days_met(during.lower, until, days):
            held[gpu_id, day.date] += (span.upper - span.lower) * seconds_within(during.lower, until, day)
    return held


def _month_line(gpu: Gpu, node: Node | None, y: int, held: dict, days: Sequence[Day], now: dt.datetime) -> MonthLine:
    past: list[str] = []
    ahead: list[str] = []
    whole = 0
    for index, day in enumerate(days):
        seconds = held.get((gpu.pk, day.date), 0)
        whole += seconds
        share = seconds / (gpu.memory_slices * seconds_within(day.since, day.until, day))
        bar = round(min(1.0, share) * (MONTH_PX - 2))
        if bar:
            (past if day.since <= now else ahead).append(f"M{10 * index} {MONTH_PX}v-{bar}h9v{bar}z")
    everything = gpu.memory_slices * sum(seconds_within(day.since, day.until, day) for day in days)
    text = _("%(node)s GPU %(index)d: %(share)s of its slice time is held") % {
        "node": gpu.node.name, "index": gpu.index, "share": percentage(100 * whole / everything)}  # fmt: skip
    return MonthLine(gpu, node, y, "".join(past), "".join(ahead), text)


def tenants_drawn(leases: Iterable[Lease], viewer: Viewer) -> list[Tenant]:
    """The tenants of the legend: those on the canvas that the viewer may see and that are not their own."""
    seen = {lease.reservation.tenant_id: lease.reservation.tenant for lease in leases}
    others = viewer.seen_tenant_ids - viewer.own_tenant_ids
    return sorted((tenant for pk, tenant in seen.items() if pk in others), key=lambda tenant: tenant.name)
