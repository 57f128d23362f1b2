"""The rail of home: what the tenant may hold, what is free now, and a reservation in three fields."""

import datetime as dt
import uuid
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET
from psycopg2.extras import DateTimeTZRange

from portal.reservations.answer import picks_of
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.offer import Offer, offer_for
from portal.reservations.outlook import QuotaUse, peak_below
from portal.reservations.spending import BudgetStatus

QUICK_LENGTHS = ("1", "2", "4", "8")
SHORTEST_USEFUL = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Holding:
    """``limit`` is None where the tenant has no quota of its own: then what is above it counts alone."""

    held: int
    limit: int | None
    above: QuotaUse | None


@login_required
@require_GET
def home_rail(request: PageRequest) -> HttpResponse:
    """Answers as a page of its own, or as the rail alone to htmx."""
    now = timezone.now()
    soon = DateTimeTZRange(now, now + SHORTEST_USEFUL, "[)")
    offer = offer_for(shell_of(request), request.GET, soon)
    context = {
        "offer": offer,
        "picks": picks_of(offer, soon),
        "holding": _holding(offer, DateTimeTZRange(now, now + dt.timedelta(seconds=1), "[)")),
        "budget": _tightest_budget(offer, now),
        "lengths": QUICK_LENGTHS,
        "key": uuid.uuid4().hex,
    }
    return render(request, "reservations/rail.html" if request.htmx else "reservations/rail_page.html", context)


def _holding(offer: Offer, during: DateTimeTZRange) -> Holding | None:
    """What the reader's own tenant holds, and the quota above it that leaves less than its own."""
    if offer.tenant is None or offer.pool is None or offer.outlook is None:
        return None
    here = offer.outlook.pools[offer.pool.pk]
    uses = here.quota_uses(during)
    own = next((use for use in uses if use.quota.tenant_id == offer.tenant.pk), None)
    tightest = min(reversed(uses), key=lambda use: use.left, default=None)
    held = own.held if own else peak_below(offer.tenant.path, during, here.holdings)
    return Holding(held, own.quota.limit if own else None, None if tightest is own else tightest)


def _tightest_budget(offer: Offer, now: dt.datetime) -> BudgetStatus | None:
    statuses = offer.outlook.budgets if offer.outlook else ()
    current = [status for status in statuses if status.since <= now < status.until]
    return min(current, key=lambda status: status.left, default=None)
