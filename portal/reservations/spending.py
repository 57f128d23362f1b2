"""What tenants have spent and promised of their budgets: always sums over rows, never a stored counter.

Amounts are weighted slice-seconds. An instant counts as the whole second it lies in, as in the ledger's own folding, so
that neighbouring periods add up to the whole.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.ledger.folding import whole_second
from portal.quotas.models import Budget
from portal.quotas.periods import PeriodBounds, period_at, periods_met
from portal.quotas.selectors import budgets_binding
from portal.reservations.reasons import budget_exceeded
from portal.tenants.models import Tenant

# Held time is read from what was closed since the period began, and from leases that are live still: the whole history
# is never walked. A lease that is being stopped promises nothing more; it costs what the ledger says until it is free,
# and none costs more than its window: the ledger closes it there, however late its agent is heard.
SUMS = """
WITH asked (position, path, since, until) AS (VALUES {asked}),
below AS (
    SELECT asked.position, asked.since, asked.until, t.id AS tenant_id
    FROM asked JOIN tenants_tenant t ON t.path LIKE asked.path || '%%'
), held AS (
    SELECT b.position, b.since, b.until, o.weight, o.at AS began, least(c.at, %(now)s) AS ended
    FROM below b
    JOIN ledger_ledgerentry c ON c.tenant_id = b.tenant_id AND c.kind = 'closed' AND c.at > b.since
    JOIN ledger_ledgerentry o ON o.lease_id = c.lease_id AND o.kind = 'opened' AND o.at < b.until
    UNION ALL
    SELECT b.position, b.since, b.until, o.weight, o.at, least(%(now)s, upper(l.during))
    FROM below b
    JOIN ledger_ledgerentry o ON o.tenant_id = b.tenant_id AND o.kind = 'opened' AND o.at < b.until
    JOIN reservations_lease l ON l.id = o.lease_id AND l.state IN ('planned', 'starting', 'active', 'stopping')
    WHERE NOT EXISTS (SELECT 1 FROM ledger_ledgerentry c WHERE c.lease_id = o.lease_id AND c.kind = 'closed')
), amounts AS (
    SELECT position, 'spent' AS what, sum(weight * greatest(0,
        floor(extract(epoch FROM least(ended, until))) - floor(extract(epoch FROM greatest(began, since))))) AS amount
    FROM held GROUP BY position
    UNION ALL
    SELECT b.position, 'spent', sum(e.weight * e.seconds)
    FROM below b JOIN ledger_ledgerentry e
        ON e.tenant_id = b.tenant_id AND e.kind = 'corrected' AND e.at >= b.since AND e.at < b.until
    GROUP BY b.position
    UNION ALL
    SELECT b.position, 'committed', sum(r.weight * greatest(0,
        floor(extract(epoch FROM least(upper(l.during), b.until)))
        - floor(extract(epoch FROM greatest(lower(l.during), b.since, %(now)s)))))
    FROM below b
    JOIN reservations_reservation r ON r.tenant_id = b.tenant_id
    JOIN reservations_lease l ON l.reservation_id = r.id
    WHERE l.state IN ('planned', 'starting', 'active') AND l.during && tstzrange(b.since, b.until)
    GROUP BY b.position
)
SELECT position, what, sum(amount)::bigint FROM amounts GROUP BY position, what
"""


@dataclass(frozen=True)
class BudgetStatus:
    """One budget in one of its periods, ``[since, until)``. ``left`` is negative once it was cut below its use."""

    tenant: Tenant
    budget: Budget
    period: PeriodBounds
    amount: int
    spent: int
    committed: int

    @property
    def since(self) -> dt.datetime:
        return self.period.since

    @property
    def until(self) -> dt.datetime:
        return self.period.until

    @property
    def left(self) -> int:
        return self.amount - self.spent - self.committed

    def cost(self, weight: int, since: dt.datetime, until: dt.datetime) -> int:
        """What holding ``weight`` over ``[since, until)`` takes of this period."""
        first, last = max(since, self.since), min(until, self.until)
        return weight * max(0, whole_second(last) - whole_second(first))


def budget_statuses(tenant: Tenant, at: dt.datetime | None = None) -> list[BudgetStatus]:
    """The budgets that bind the tenant, root first, in the periods that ``at`` lies in; as they stand now."""
    now = timezone.now()
    return statuses_of([(budget, period_at(budget, at or now)) for budget in budgets_binding(tenant)], now)


def budget_statuses_during(
    tenant: Tenant, since: dt.datetime, until: dt.datetime, now: dt.datetime
) -> list[BudgetStatus]:
    """One status for each budget that binds the tenant and each of its periods that the window meets, root first."""
    asked = [(budget, period) for budget in budgets_binding(tenant) for period in periods_met(budget, since, until)]
    return statuses_of(asked, now)


def statuses_of(asked: Sequence[tuple[Budget, PeriodBounds]], now: dt.datetime) -> list[BudgetStatus]:
    """Spent and committed of each budget in each period, in one query whatever their number."""
    if not asked:
        return []
    values: list[str] = []
    parameters: dict[str, dt.datetime | str] = {"now": now}
    for position, (budget, period) in enumerate(asked):
        values.append(
            f"({position}, %(path{position})s, %(since{position})s::timestamptz, %(until{position})s::timestamptz)"
        )
        parameters[f"path{position}"] = budget.tenant.path
        parameters[f"since{position}"], parameters[f"until{position}"] = period.since, period.until
    with connection.cursor() as cursor:
        cursor.execute(SUMS.format(asked=", ".join(values)), parameters)
        sums = {(position, what): amount for position, what, amount in cursor.fetchall()}
    return [
        BudgetStatus(
            budget.tenant, budget, period, budget.slice_seconds,
            sums.get((position, "spent"), 0), sums.get((position, "committed"), 0),
        )
        for position, (budget, period) in enumerate(asked)
    ]  # fmt: skip


def check_budgets(tenant: Tenant, pool: Pool, weight: int, during: DateTimeTZRange, now: dt.datetime) -> None:
    """Refuse what a budget on the way up cannot pay, period by period; equal to what is left is accepted.

    True only while the caller holds the budgets' locks, from root to leaf. ``pool`` is where it would run; budgets span
    all pools.
    """
    refuse_over_budget(
        budget_statuses_during(tenant, during.lower, during.upper, now), weight, during.lower, during.upper
    )


def refuse_over_budget(statuses: Sequence[BudgetStatus], weight: int, since: dt.datetime, until: dt.datetime) -> None:
    """Raise for the first period in which the window costs more than is left of it."""
    for status in statuses:
        asked = status.cost(weight, since, until)
        if asked and asked > status.left:
            raise budget_exceeded(str(status.tenant), str(status.period), status.amount, status.left, asked)
