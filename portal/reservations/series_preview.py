"""Which occurrences of a series would fit, and why the others would not: read once, without a lock.

Those before count: what an occurrence would hold and spend is laid over what the next one finds.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.quotas.policies import EffectivePolicy, policy_and_budgets
from portal.quotas.selectors import quotas_binding
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import COUNTED, Lease
from portal.reservations.outlook import NOTHING, Holding, Known, outlook_around, peak_below
from portal.reservations.policy_rules import HeldByPerson, check_coverage, check_policy, check_policy_window
from portal.reservations.questions import above_threshold
from portal.reservations.reasons import no_capacity
from portal.reservations.request import Request, price_of
from portal.reservations.rules import check_shape, no_access
from portal.reservations.selectors import shape_of, window_of
from portal.reservations.series_asked import HeldBy, SeriesAsked, bookable_until, check_asked, check_shares
from portal.reservations.series_dates import Occurrence
from portal.reservations.spending import BudgetStatus
from portal.reservations.whatif import check_limits
from portal.reservations.windows import check_window
from scheduler.placement.explain import why_not
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import GpuView, Held, Placement, Window


@dataclass(frozen=True)
class Fit:
    """One occurrence; ``refusal`` is why it cannot be booked, and nothing is asked of one that is skipped."""

    occurrence: Occurrence
    refusal: ReservationRefused | None
    skipped: bool
    price_slice_seconds: int = 0

    @property
    def fits(self) -> bool:
        return self.refusal is None and not self.skipped


@dataclass(frozen=True)
class SeriesPreview:
    """``price_slice_seconds`` is of all that fit; ``threshold`` is set when a lead has to say yes to that."""

    fits: tuple[Fit, ...]
    price_slice_seconds: int
    threshold: int | None
    bookable_until: dt.datetime
    budget: BudgetStatus | None

    @property
    def fitting(self) -> list[Fit]:
        return [one for one in self.fits if one.fits]

    @property
    def refused(self) -> list[Fit]:
        return [one for one in self.fits if one.refusal is not None]


def preview_series(
    asked: SeriesAsked,
    *,
    skip: Collection[dt.date] = (),
    now: dt.datetime | None = None,
    known: Known = NOTHING,
    known_people: bool = False,
) -> SeriesPreview:
    """What booking would answer now; raises what is refused of the series as a whole.

    ``known`` is what was read of the tenant and the pool already; with ``known_people`` who asks for whom is not
    checked again.
    """
    now = now or timezone.now()
    quotas = quotas_binding(asked.tenant, asked.pool) if known.quotas is None else known.quotas
    check_asked(asked, quotas, known_people=known_people)
    occurrences = asked.occurrences()
    bound = policy_and_budgets(asked.tenant)
    until = bookable_until(asked, now, bound[0])
    windows = [one.during for one in occurrences if one.during is not None]
    ahead = [during for during in windows if now <= during.upper and during.lower <= until]
    known = replace(known, quotas=quotas, bound=bound)
    stage = _Stage(asked, ahead or windows[:1], now, known) if windows else None
    fits = tuple(_fit(asked, one, one.date in skip, stage) for one in occurrences)
    price = sum(one.price_slice_seconds for one in fits)
    threshold = above_threshold(asked.created_by, asked.tenant, bound[0], price)
    return SeriesPreview(fits, price, threshold, until, stage.tightest() if stage else None)


def _fit(asked: SeriesAsked, one: Occurrence, skipped: bool, stage: "_Stage | None") -> Fit:
    if skipped or one.during is None or stage is None:
        return Fit(one, None if skipped else one.question, skipped)
    request = asked.request_in(one.during)
    try:
        stage.take(request)
    except ReservationRefused as refusal:
        return Fit(one, refusal, False)
    return Fit(one, None, False, price_of(request, one.during))


class _Stage:
    """The outlook over all windows, in which every occurrence that fits takes its place."""

    def __init__(
        self, asked: SeriesAsked, windows: Sequence[DateTimeTZRange], now: dt.datetime, known: Known
    ) -> None:
        around = DateTimeTZRange(min(one.lower for one in windows), max(one.upper for one in windows), "[)")
        outlook = outlook_around(asked.tenant, around, now, pool=asked.pool, margin=dt.timedelta(0), known=known)
        here = outlook.pools.get(asked.pool.pk)
        if here is None:
            raise no_access(asked.tenant, asked.pool)
        self._asked, self._outlook, self._here = asked, outlook, here
        self._views = {view.gpu_id: view for view in here.views}
        self._own = _held_by_each(asked.people, outlook.policy, around)

    def take(self, request: Request) -> None:
        """Raise what booking would say, or take the place."""
        during, now = request.during, self._outlook.now
        check_window(during, request.pool, now)
        check_policy_window(self._outlook.policy, during, now)
        check_coverage(self._here.quotas, during)
        check_shape(request.pool, request.profile, request.ranks)
        image = request.workload.image if request.workload else None
        check_policy(
            self._outlook.policy, pool=request.pool, profile=request.profile, weight=request.weight_of_owner,
            during=during, now=now, image=image)  # fmt: skip
        check_shares(request, self._asked.people, self._outlook.policy, now, self._held_in(during))
        check_limits(self._outlook, self._here, request.weight, during)
        self._hold(request, self._places(request))

    def tightest(self) -> BudgetStatus | None:
        """The budget of which least is left, with this series taken from it."""
        return min(self._outlook.budgets, key=lambda status: status.left, default=None)

    def _held_in(self, during: DateTimeTZRange) -> HeldBy:
        def held(person: User) -> HeldByPerson:
            return lambda tenant: peak_below(tenant.path, during, self._own[person.pk])

        return held

    def _places(self, request: Request) -> tuple[Placement, ...]:
        window, count = window_of(request.during), request.ranks * request.people
        views = [_near(view, window) for view in self._views.values()]
        shape = shape_of(request.profile)
        placements = place_gang(shape, count, views, window, self._here.shapes)
        if not placements:
            raise no_capacity(why_not(shape, count, views, window, self._here.shapes), request.pool, request.profile)
        return placements

    def _hold(self, request: Request, placements: Sequence[Placement]) -> None:
        during, window = request.during, window_of(request.during)
        for one in placements:
            view = self._views[one.gpu_id]
            held = Held(one.start, one.end, window.start, window.end, request.profile.name)
            self._views[one.gpu_id] = replace(view, held=(*view.held, held))
        path = self._outlook.tenant.path
        taken = Holding(during.lower, during.upper, request.weight, path)
        self._here = replace(self._here, holdings=(*self._here.holdings, taken))
        budgets = tuple(
            replace(status, committed=status.committed + status.cost(request.weight, during.lower, during.upper))
            for status in self._outlook.budgets
        )
        self._outlook = replace(self._outlook, budgets=budgets)
        for rows in self._own.values():
            rows.append(Holding(during.lower, during.upper, request.weight_of_owner, path))


def _near(view: GpuView, window: Window) -> GpuView:
    """What bears on the window and on the scores beside it; a semester's leases would be walked for every date."""
    held = tuple(one for one in view.held if one.since <= window.end and window.start <= one.until)
    return replace(view, held=held)


def _held_by_each(people: Sequence[User], policy: EffectivePolicy, around: DateTimeTZRange) -> dict[int, list[Holding]]:
    """What each holds below the highest tenant whose policy counts that; one query, none without such a policy."""
    found: dict[int, list[Holding]] = {person.pk: [] for person in people}
    if policy.weight_rules:
        rows = Lease.objects.filter(
            COUNTED, reservation__owner__in=people, during__overlap=around,
            reservation__tenant__path__startswith=policy.weight_rules[0][0].path,
        )  # fmt: skip
        columns = ("reservation__owner_id", "during", "reservation__weight", "reservation__tenant__path")
        for owner_id, during, weight, path in rows.values_list(*columns):
            found[owner_id].append(Holding(during.lower, during.upper, weight, path))
    return found
