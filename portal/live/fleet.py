"""The fleet: nodes as shelves of GPUs, each GPU as its slices with what holds them now."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import (
    BigIntegerField,
    DateTimeField,
    Exists,
    F,
    Func,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
)
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.listing import SHOWN
from portal.inventory.models import Gpu, GpuState, Node, NodeState
from portal.live.models import UseBucket
from portal.reservations.canvas import Frame, Rect, Viewer, lease_rect
from portal.reservations.closures import drawn_maintenance
from portal.reservations.models import LIVE, Lease, LeaseState, Maintenance
from portal.reservations.selectors import ON_DEVICE

NODES_A_PAGE = 24
GPU_PX, NAME_PX = 120, 20
AHEAD = dt.timedelta(hours=1)  # what is free now is free for at least this long
RECENT, DAY = dt.timedelta(minutes=1), dt.timedelta(days=1)
EMPTYING = (NodeState.CORDONED, NodeState.DRAINING)
NEEDS_ATTENTION = {"silent", "degraded", "waiting", "maintenance"}
BIG = BigIntegerField()
Planned = dict[int, list[Maintenance]]  # by GPU id
SLICES_HELD = Func(F("span"), function="upper", output_field=IntegerField()) - Func(
    F("span"), function="lower", output_field=IntegerField()
)
LEASE_SLICES = Func(F("lease__span"), function="upper", output_field=IntegerField()) - Func(
    F("lease__span"), function="lower", output_field=IntegerField()
)


@dataclass(frozen=True)
class Slot:
    """A lease on its GPU. Without ``live`` its use never shows; ``unmeasured`` is what nobody hears of any more."""

    rect: Rect
    label: str
    live: str
    unmeasured: bool


@dataclass(frozen=True)
class GpuCard:
    """One GPU now; ``out`` says why it is out of service, ``closed`` is during maintenance."""

    gpu: Gpu
    slots: tuple[Slot, ...]
    held: int
    out: str
    closed: bool = False

    @property
    def cells(self) -> list[tuple[float, float, bool]]:
        """y, height and paleness of each slice."""
        high = self.gpu.memory_slices
        row = GPU_PX / high
        return [((high - 1 - number) * row, row - 1, number >= self.gpu.compute_slices) for number in range(high)]


@dataclass(frozen=True)
class Shelf:
    """One node with its GPUs; ``state`` and ``word`` are how its state looks and reads. ``maintenance`` is the one that
    one of its GPUs is in or comes to within a day. ``empty_at`` is when the last of what it holds or is booked there
    ends, of a node that takes nothing new; None when nothing is."""

    node: Node
    state: str
    word: str
    gpus: tuple[GpuCard, ...]
    maintenance: Maintenance | None = None
    empty_at: dt.datetime | None = None

    @property
    def held(self) -> int:
        return sum(card.held for card in self.gpus)

    @property
    def slices(self) -> int:
        return sum(card.gpu.memory_slices for card in self.gpus if not card.out)

    @property
    def models(self) -> str:
        """What it carries: 8 × NVIDIA H100 80GB HBM3."""
        counts: dict[str, int] = defaultdict(int)
        for card in self.gpus:
            counts[card.gpu.model] += 1
        return ", ".join(f"{count} × {model}" for model, count in counts.items())

    @property
    def lease_count(self) -> int:
        return sum(len(card.slots) for card in self.gpus)


@dataclass(frozen=True)
class Standing:
    """The fleet in numbers. ``use_percent`` is None where nothing held could be measured."""

    ready: int
    nodes: int
    others: list[tuple[int, str]]
    held: int
    in_service: int
    use_percent: int | None


def nodes_in_service(pool_id: int | None) -> tuple[list[Node], int]:
    """Every node that is not retired, of the pool where one is asked for; and the slices of its GPUs that are well."""
    gpus = Q() if pool_id is None else Q(gpus__pool_id=pool_id)
    well = gpus & Q(gpus__present=True, gpus__state=GpuState.OK)
    nodes = Node.objects.exclude(state=NodeState.RETIRED)
    if pool_id is not None:
        nodes = nodes.filter(Exists(Gpu.objects.filter(node=OuterRef("pk"), pool_id=pool_id)))
    found = list(nodes.annotate(slices=Sum("gpus__memory_slices", filter=well)).order_by("name"))
    return list(found), sum(node.slices or 0 for node in found)


def maintenance_ahead(gpus: Sequence[Gpu], now: dt.datetime) -> Planned:
    """Of now and within a day. One query."""
    return drawn_maintenance(gpus, DateTimeTZRange(now, now + DAY))


def needs_attention(node: Node) -> bool:
    return node.shown_state in NEEDS_ATTENTION


def leases_now(gpus: QuerySet[Gpu] | Iterable[Gpu], now: dt.datetime) -> QuerySet[Lease]:
    """Leases whose window is now or within the hour, and those that are still on their device."""
    soon = Q(during__overlap=DateTimeTZRange(now, now + AHEAD))
    return Lease.objects.filter(soon | Q(state__in=ON_DEVICE), gpu__in=gpus, state__in=LIVE)


def holds_now(lease: Lease, now: dt.datetime) -> bool:
    return lease.during.lower <= now or lease.state in ON_DEVICE


def shelves(
    nodes: Sequence[Node], gpus: Sequence[Gpu], leases: Iterable[Lease], maintenance: Planned, viewer: Viewer,
    now: dt.datetime,
) -> list[Shelf]:  # fmt: skip
    held: dict[int, list[Lease]] = defaultdict(list)
    for lease in leases:
        if holds_now(lease, now):
            held[lease.gpu_id].append(lease)
    cards: dict[int, list[GpuCard]] = defaultdict(list)
    planned: dict[int, Maintenance] = {}
    for gpu in gpus:
        here = maintenance.get(gpu.pk, [])
        closed = any(one.during.lower <= now for one in here)
        cards[gpu.node_id].append(_card(gpu, held[gpu.pk], viewer, now, closed))
        if here:
            planned.setdefault(gpu.node_id, here[0])
    looks = {node.pk: SHOWN[node.shown_state] for node in nodes}
    ends = _last_ends([node.pk for node in nodes if node.state in EMPTYING])
    return [
        Shelf(
            node, looks[node.pk][0], str(looks[node.pk][1]), tuple(cards[node.pk]), planned.get(node.pk),
            ends.get(node.pk))
        for node in nodes
    ]  # fmt: skip


def _last_ends(node_ids: Sequence[int]) -> dict[int, dt.datetime]:
    """By node, when the last that is bound to it ends. One query where there is such a node."""
    if not node_ids:
        return {}
    bound = Lease.objects.filter(gpu__node__in=node_ids, state__in=LIVE).order_by()
    last = Max(Func(F("during"), function="upper", output_field=DateTimeField()))
    return dict(bound.values("gpu__node").annotate(last=last).values_list("gpu__node", "last"))


def _card(gpu: Gpu, leases: list[Lease], viewer: Viewer, now: dt.datetime, closed: bool) -> GpuCard:
    slots = tuple(_slot(gpu, lease, viewer, now) for lease in sorted(leases, key=lambda lease: lease.span.lower))
    out = (gpu.fault or _("faulty")) if gpu.state == GpuState.FAULTY else ""
    return GpuCard(gpu, slots, sum(lease.span.upper - lease.span.lower for lease in leases), out, closed)


def _slot(gpu: Gpu, lease: Lease, viewer: Viewer, now: dt.datetime) -> Slot:
    rect = lease_rect(lease, Frame(now - AHEAD, now + AHEAD), viewer, row_px=GPU_PX / gpu.memory_slices)
    size = lease.reservation.profile.name.split(".")[0]
    code = _("you") if rect.css.startswith("mine") else lease.reservation.tenant.code if rect.href else ""
    label = f"{code} {size}".strip() if rect.height > NAME_PX else code
    silent = gpu.node.silent_since is not None
    return Slot(rect, label, rect.key if rect.href and not silent else "", silent)


def standing(nodes: Sequence[Node], in_service: int, pool_id: int | None, now: dt.datetime) -> Standing:
    """One query: what is held now, and how much of it was busy in the last minute."""
    counts: dict[str, int] = defaultdict(int)
    for node in nodes:
        counts[node.shown_state] += 1
    sums = {what: (one or 0, other or 0) for what, one, other in _held_now(pool_id, now).union(_used(pool_id, now))}
    busy, seen = sums.get("used", (0, 0))
    return Standing(
        ready=counts["ready"],
        nodes=len(nodes),
        others=[(count, str(SHOWN[state][1])) for state, count in sorted(counts.items()) if state != "ready"],
        held=sums.get("held", (0, 0))[0],
        in_service=in_service,
        use_percent=round(busy / seen / 10) if seen else None,
    )


def _held_now(pool_id: int | None, now: dt.datetime) -> QuerySet:
    """("held", slices, 0)."""
    of_pool = {} if pool_id is None else {"reservation__pool_id": pool_id}
    now_held = Q(during__contains=now) | Q(state__in=ON_DEVICE)
    rows = Lease.objects.filter(now_held, state__in=LIVE, **of_pool).order_by().values(what=Value("held"))
    sums = rows.annotate(one=Sum(SLICES_HELD, output_field=BIG), other=Value(0, BIG))
    return sums.values_list("what", "one", "other")


def _used(pool_id: int | None, now: dt.datetime) -> QuerySet:
    """("used", busy slice-milliseconds, measured slice-seconds)."""
    rows = UseBucket.objects.filter(seconds=10, at__gte=now - RECENT, lease__state=LeaseState.ACTIVE)
    if pool_id is not None:
        rows = rows.filter(lease__reservation__pool_id=pool_id)
    return (
        rows.order_by()
        .values(what=Value("used"))
        .annotate(
            one=Sum(F("busy_ms") * LEASE_SLICES, output_field=BIG),
            other=Sum(F("measured_seconds") * LEASE_SLICES, output_field=BIG),
        )
        .values_list("what", "one", "other")
    )
