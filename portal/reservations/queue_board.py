"""A pool as it would be with all that is planned so far, read once for one pass over its queue.

The rules are those of booking, asked of an outlook: a start in the future is looked at as if it were booked then. Two
layers: what is held, and with it what those ahead in the queue are planned to get.
"""

import bisect
import copy
import datetime as dt
import math
import zoneinfo
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.coverage import open_intervals
from portal.quotas.models import Budget, Quota
from portal.quotas.periods import periods_met
from portal.quotas.policies import EffectivePolicy, policies_of
from portal.quotas.selectors import with_hours
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import COUNTED, Lease, Reservation
from portal.reservations.outlook import Holding, Outlook, PoolOutlook, QuotaUse
from portal.reservations.policy_rules import quotas_met
from portal.reservations.rules import check_member, no_access
from portal.reservations.selectors import gpu_views, profiles_of, shape_of
from portal.reservations.spending import BudgetStatus, statuses_of
from portal.reservations.whatif import check_without_capacity
from scheduler.placement.geometry import GpuView, Held, Placement, Shape

FARTHEST = dt.timedelta(days=400)


class HeldOverTime:
    """The weight that any subtree holds at any time; each is added up once, and again after something was added."""

    def __init__(self, holdings: Iterable[Holding]):
        self.holdings = list(holdings)
        self._lines: dict[str, tuple[list[dt.datetime], list[int]]] = {}

    def add(self, holding: Holding) -> None:
        self.holdings.append(holding)
        self._lines = {path: line for path, line in self._lines.items() if not holding.tenant_path.startswith(path)}

    def peak(self, path: str, during: DateTimeTZRange) -> int:
        times, levels = self._line(path)
        first = bisect.bisect_right(times, during.lower) - 1
        return max(levels[max(first, 0) : bisect.bisect_left(times, during.upper)], default=0)

    def _line(self, path: str) -> tuple[list[dt.datetime], list[int]]:
        if path not in self._lines:
            changes: dict[dt.datetime, int] = defaultdict(int)
            for one in self.holdings:
                if one.tenant_path.startswith(path):
                    changes[one.since] += one.weight
                    changes[one.until] -= one.weight
            times, levels, held = sorted(changes), [], 0
            for at in times:
                held += changes[at]
                levels.append(held)
            self._lines[path] = times, levels
        return self._lines[path]


@dataclass(frozen=True)
class PoolOverTime(PoolOutlook):
    """A pool's outlook whose quota use is read from what was added up before."""

    held: HeldOverTime

    def quota_uses(self, during: DateTimeTZRange) -> list[QuotaUse]:
        met = quotas_met(self.quotas, during)
        return [QuotaUse(quota, self.held.peak(quota.tenant.path, part)) for quota, part in met]


@dataclass
class Layer:
    """What is held: on GPUs, against quotas, by people, of budgets."""

    views: dict[int, GpuView]
    held: HeldOverTime
    own: dict[int, list[Holding]]
    budgets: list[BudgetStatus]

    def copied(self) -> "Layer":
        own = {owner: list(rows) for owner, rows in self.own.items()}
        return Layer(dict(self.views), HeldOverTime(self.held.holdings), own, list(self.budgets))

    def hold(self, reservation: Reservation, during: DateTimeTZRange, placements: Sequence[Placement]) -> None:
        since, until = int(during.lower.timestamp()), int(during.upper.timestamp())
        for one in placements:
            view = self.views[one.gpu_id]
            span = Held(one.start, one.end, since, until, reservation.profile.name)
            self.views[one.gpu_id] = replace(view, held=(*view.held, span))
        weight = reservation.weight * reservation.ranks
        holding = Holding(during.lower, during.upper, weight, reservation.tenant.path)
        self.held.add(holding)
        if reservation.owner_id in self.own:
            self.own[reservation.owner_id].append(holding)
        self.budgets = [
            replace(one, committed=one.committed + one.cost(weight, during.lower, during.upper))
            if reservation.tenant.path.startswith(one.tenant.path) else one
            for one in self.budgets
        ]  # fmt: skip

    @property
    def gpus(self) -> list[GpuView]:
        return list(self.views.values())


@dataclass
class Board:
    """``held`` is what the database says, ``planned`` adds what those ahead are planned to get."""

    pool: Pool
    now: dt.datetime
    until: dt.datetime
    held: Layer
    planned: Layer
    quotas: list[Quota]
    policies: dict[int, EffectivePolicy]
    shapes: tuple[Shape, ...]
    ahead: int = 0
    # From when on at the earliest there is room for so many of a shape for so long: a board only becomes fuller.
    room_from: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _members: dict[tuple[int, int], ReservationRefused | None] = field(default_factory=dict)
    _opens: dict[int, list[int]] = field(default_factory=dict)

    def bind(self, reservation: Reservation, during: DateTimeTZRange, placements: Sequence[Placement]) -> None:
        """It has its place now."""
        for layer in (self.held, self.planned):
            layer.hold(reservation, during, placements)

    def plan(self, reservation: Reservation, during: DateTimeTZRange, placements: Sequence[Placement]) -> None:
        """It is to get this place: who comes after it leaves it alone."""
        self.planned.hold(reservation, during, placements)
        self.ahead += 1

    def quotas_of(self, reservation: Reservation) -> list[Quota]:
        above = set(reservation.tenant.ancestor_ids)
        return [row for row in self.quotas if row.tenant_id in above]

    def refusal(self, layer: Layer, reservation: Reservation, during: DateTimeTZRange) -> ReservationRefused | None:
        """Why booking would not take it then, room aside; None when it would."""
        stranger = self._stranger(reservation)
        if stranger is not None:
            return stranger
        quotas = self.quotas_of(reservation)
        outlook = Outlook(
            reservation.tenant, max(during.lower, self.now) if not reservation.wait.fixed else self.now, self.now,
            self.until, {}, self._budgets_of(layer, reservation), self.policies[reservation.tenant_id],
            tuple(layer.own[reservation.owner_id]) if reservation.owner_id in layer.own else None)  # fmt: skip
        if not quotas:
            return no_access(outlook.tenant, self.pool)
        here = PoolOverTime(self.pool, tuple(quotas), (), {}, (), (), layer.held)
        image = reservation.workload.image
        try:
            check_without_capacity(outlook, here, weighed(reservation), reservation.ranks, during, image)
        except ReservationRefused as refusal:
            return refusal
        return None

    def _stranger(self, reservation: Reservation) -> ReservationRefused | None:
        key = reservation.owner_id, reservation.tenant_id
        if key not in self._members:
            self._members[key] = None
            try:
                check_member(reservation.owner, reservation.tenant)
            except ReservationRefused as refusal:
                self._members[key] = refusal
        return self._members[key]

    def _budgets_of(self, layer: Layer, reservation: Reservation) -> tuple[BudgetStatus, ...]:
        path = reservation.tenant.path
        return tuple(one for one in layer.budgets if path.startswith(one.tenant.path))

    def turning_points(self, reservation: Reservation) -> Iterator[int]:
        """Seconds at which it may become possible: something ends, a quota opens, a period of a budget begins."""
        layer, weight = self.planned, reservation.weight * reservation.ranks
        for view in layer.views.values():
            yield from (held.until for held in view.held)
        for one in (*layer.held.holdings, *layer.own.get(reservation.owner_id, ())):
            yield math.ceil(one.until.timestamp())
        for status in self._budgets_of(layer, reservation):
            yield math.ceil(status.since.timestamp())
            yield math.ceil(status.until.timestamp()) - max(0, status.left) // weight
        for quota in self.quotas_of(reservation):
            yield from (math.ceil(at.timestamp()) for at in (quota.valid.lower, quota.valid.upper) if at is not None)
            yield from self._openings(quota)

    def _openings(self, quota: Quota) -> list[int]:
        if quota.pk not in self._opens:
            zone, around = zoneinfo.ZoneInfo(quota.tenant.time_zone), DateTimeTZRange(self.now, self.until, "[)")
            intervals = open_intervals(around, quota.open_hours, zone) if quota.open_hours else []
            self._opens[quota.pk] = [math.ceil(since.timestamp()) for since, _until in intervals]
        return self._opens[quota.pk]


def weighed(reservation: Reservation):
    """Its profile with the weight that it was asked with."""
    profile = copy.copy(reservation.profile)
    profile.weight = reservation.weight
    return profile


def board_of(pool: Pool, waiting: Sequence[Reservation], now: dt.datetime) -> Board:
    """Ten queries, whatever the number of requests. Call under the pool's lock, or for a look only."""
    tenants = {one.tenant_id: one.tenant for one in waiting}.values()
    ends = [one.wait.give_up_at + dt.timedelta(seconds=one.wait.seconds) for one in waiting]
    until = min(max(ends, default=now), now + FARTHEST)
    around = DateTimeTZRange(now, max(until, now + dt.timedelta(seconds=1)), "[)")
    policies = policies_of(tenants)
    counted = {one.owner_id for one in waiting if policies[one.tenant_id].weight_rules}
    held = Layer(
        {view.gpu_id: view for view in gpu_views(pool, around, now)},
        HeldOverTime(_holdings(pool, around)),
        _own(counted, around),
        _budgets(waiting, around, now),
    )
    return Board(
        pool, now, until, held, held.copied(),
        with_hours(Quota.objects.filter(pool=pool)), policies, tuple(map(shape_of, profiles_of(pool))))  # fmt: skip


def _holdings(pool: Pool, around: DateTimeTZRange) -> list[Holding]:
    rows = Lease.objects.filter(COUNTED, reservation__pool=pool, during__overlap=around).order_by("pk")
    found = rows.values_list("during", "reservation__weight", "reservation__tenant__path")
    return [Holding(during.lower, during.upper, weight, path) for during, weight, path in found]


def _own(owner_ids: set[int], around: DateTimeTZRange) -> dict[int, list[Holding]]:
    """What people hold in all pools, of those whose policies count it."""
    own: dict[int, list[Holding]] = {owner_id: [] for owner_id in owner_ids}
    rows = Lease.objects.filter(COUNTED, reservation__owner__in=owner_ids, during__overlap=around)
    for owner_id, during, weight, path in rows.order_by("pk").values_list(
        "reservation__owner_id", "during", "reservation__weight", "reservation__tenant__path"
    ):
        own[owner_id].append(Holding(during.lower, during.upper, weight, path))
    return own


def _budgets(waiting: Sequence[Reservation], around: DateTimeTZRange, now: dt.datetime) -> list[BudgetStatus]:
    above = {pk for one in waiting for pk in one.tenant.ancestor_ids}
    rows = Budget.objects.filter(tenant_id__in=above).select_related("tenant").order_by("tenant__path")
    asked = [(budget, period) for budget in rows for period in periods_met(budget, around.lower, around.upper)]
    return statuses_of(asked, now)
