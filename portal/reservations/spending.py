"""What tenants have spent and promised of their budgets: always sums over rows, never a stored counter.

Amounts are weighted slice-seconds. An instant counts as the whole second it lies in, as in the ledger's own folding, so
that neighbouring periods add up to the whole.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.ledger.folding import whole_second
from portal.quotas.models import Budget
from portal.quotas.periods import PeriodBounds, period_at, periods_met
from portal.quotas.selectors import budgets_binding
from portal.reservations.models import Reservation
from portal.reservations.pace import LOOKED_BACK, Pace, pace_of
from portal.reservations.reasons import budget_exceeded
from portal.reservations.spending_sums import Asked, sums_of
from portal.tenants.models import Tenant


@dataclass(frozen=True)
class BudgetStatus:
    """One budget in one of its periods, ``[since, until)``, as it stood at ``at``. ``left`` is negative once the budget
    was cut below its use. ``recent`` is what was spent in the two weeks before, where it was asked for."""

    tenant: Tenant
    budget: Budget
    period: PeriodBounds
    amount: int
    spent: int
    committed: int
    at: dt.datetime
    recent: int | None = None

    @property
    def since(self) -> dt.datetime:
        return self.period.since

    @property
    def until(self) -> dt.datetime:
        return self.period.until

    @property
    def left(self) -> int:
        return self.amount - self.spent - self.committed

    @property
    def pace(self) -> Pace | None:
        """Where it ends up; None for a period that is not the present one, or when nobody asked."""
        if self.recent is None or not self.since <= self.at < self.until:
            return None
        return pace_of(self.left, self.recent, self.until, self.at)

    def cost(self, weight: int, since: dt.datetime, until: dt.datetime) -> int:
        """What holding ``weight`` over ``[since, until)`` takes of this period."""
        first, last = max(since, self.since), min(until, self.until)
        return weight * max(0, whole_second(last) - whole_second(first))


def budget_statuses(tenant: Tenant, at: dt.datetime | None = None, *, paced: bool = False) -> list[BudgetStatus]:
    """The budgets that bind the tenant, root first, in the periods that ``at`` lies in; as they stand now."""
    now = timezone.now()
    return statuses_of([(budget, period_at(budget, at or now)) for budget in budgets_binding(tenant)], now, paced=paced)


def budget_statuses_during(
    tenant: Tenant,
    since: dt.datetime,
    until: dt.datetime,
    now: dt.datetime,
    *,
    instead_of: Reservation | None = None,
    paced: bool = False,
) -> list[BudgetStatus]:
    """One status for each budget that binds the tenant and each of its periods that the window meets, root first."""
    asked = [(budget, period) for budget in budgets_binding(tenant) for period in periods_met(budget, since, until)]
    return statuses_of(asked, now, instead_of=instead_of, paced=paced)


def statuses_of(
    asked: Sequence[tuple[Budget, PeriodBounds]],
    now: dt.datetime,
    *,
    instead_of: Reservation | None = None,
    paced: bool = False,
) -> list[BudgetStatus]:
    """Spent and committed of each budget in each period, in one query whatever their number.

    ``instead_of`` is a reservation whose own promise is left out; ``paced`` looks at the last two weeks too, for the
    periods that are under way.
    """
    present = [budget for budget, period in asked if paced and period.since <= now < period.until]
    wanted = [Asked(budget.tenant.path, period.since, period.until) for budget, period in asked]
    wanted += [Asked(budget.tenant.path, now - LOOKED_BACK, now) for budget in present]
    sums = sums_of(wanted, now, instead_of.pk if instead_of else None)
    recent = {budget.pk: one.spent for budget, one in zip(present, sums[len(asked) :], strict=True)}
    return [
        BudgetStatus(
            budget.tenant, budget, period, budget.slice_seconds, one.spent, one.committed, now, recent.get(budget.pk)
        )
        for (budget, period), one in zip(asked, sums, strict=False)
    ]


def check_budgets(
    tenant: Tenant,
    weight: int,
    during: DateTimeTZRange,
    now: dt.datetime,
    *,
    instead_of: Reservation | None = None,
    budgets: Sequence[Budget] | None = None,
) -> None:
    """Refuse what a budget on the way up cannot pay, period by period; equal to what is left is accepted.

    True only while the caller holds the budgets' locks, from root to leaf. ``instead_of`` is the reservation that asks
    for another window: its promise is not counted, and what it has held already is spent, not asked for again.
    ``budgets`` are those that bind the tenant, where they are known already.
    """
    since = max(during.lower, now) if instead_of else during.lower
    rows = budgets_binding(tenant) if budgets is None else budgets
    asked = [(budget, period) for budget in rows for period in periods_met(budget, during.lower, during.upper)]
    statuses = statuses_of(asked, now, instead_of=instead_of)
    refuse_over_budget(statuses, weight, since, during.upper)


def refuse_over_budget(statuses: Sequence[BudgetStatus], weight: int, since: dt.datetime, until: dt.datetime) -> None:
    """Raise for the first period in which the window costs more than is left of it."""
    for status in statuses:
        asked = status.cost(weight, since, until)
        if asked and asked > status.left:
            raise budget_exceeded(str(status.tenant), str(status.period), status.amount, status.left, asked)
