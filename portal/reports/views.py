"""The usage page of a tenant and its export: the same cells, so the same numbers."""

import datetime as dt
from collections.abc import Sequence
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from portal.accounts.middleware import zone_of
from portal.accounts.models import User
from portal.accounts.requests import number_in
from portal.reports.chart import chart_of
from portal.reports.periods import Choice, PeriodRefused, Span, period_of
from portal.reports.usage import usage_of
from portal.reports.usage_csv import write_usage
from portal.reports.usage_rows import Row, Usage
from portal.reservations.context import Shell, shell_of
from portal.reservations.spending import BudgetStatus, budget_statuses
from portal.tenants.models import Tenant

MOST_IDLE = 3
LAST_RUN = 8
JUST_BEGUN = dt.timedelta(days=3)
SORTS = {
    "member": lambda row: row.label.casefold(),
    "reserved": lambda row: -row.figures.reserved,
    "running": lambda row: -row.figures.running,
    "used": lambda row: -row.figures.used_ms,
    "idle": lambda row: -row.figures.idle_ms,
}
COLUMNS = (("reserved", _("Reserved")), ("running", _("Running")), ("used", _("Used")), ("idle", _("Idle")))


@login_required
@require_GET
def usage(request: HttpRequest) -> HttpResponse:
    """One tenant with everything below it, for all who may see it; a period that makes no sense is said so (422)."""
    shell, now, refusal = shell_of(request), timezone.now(), ""
    tenant = chosen_tenant(shell, request.GET.get("tenant", ""))
    if tenant is None:
        return render(request, "usage/nothing.html")
    zone = zone_of(tenant.time_zone)
    asked = choice, first, last = [request.GET.get(name, "") for name in ("period", "from", "to")]
    try:
        span = period_of(choice, first, last, today=now.astimezone(zone).date(), zone=zone)
    except PeriodRefused as error:
        span, refusal = period_of("", "", "", today=now.astimezone(zone).date(), zone=zone), str(error)
    found = usage_of(tenant, span, now)
    if request.GET.get("format") == "csv" and not refusal:
        return _csv(tenant, span, found)
    sort = request.GET.get("sort", "")
    context = {"tenant": tenant, "span": span, "asked": asked, "refusal": refusal, "choices": Choice}
    context["here"] = urlencode({"tenant": tenant.pk, "period": span.choice, "from": span.first, "to": span.last})
    context |= _shown(found, span, sort if sort in SORTS else "reserved", now)
    context["just_begun"] = span.choice == Choice.THIS_MONTH and now - span.since < JUST_BEGUN and not refusal
    context["budgets"] = _tightest_first(budget_statuses(tenant, now, paced=True))
    return render(request, "usage/page.html", context, status=422 if refusal else 200)


def chosen_tenant(shell: Shell, number: str) -> Tenant | None:
    """The tenant in the address, which must be the reader's, or the one that the shell shows."""
    if not number:
        return shell.tenant
    wanted = number_in(number)
    found = next((tenant for tenant in shell.tenants if tenant.pk == wanted), None)
    if found is None:
        raise Http404
    return found


def _shown(found: Usage, span: Span, sort: str, now: dt.datetime) -> dict:
    members = sorted(found.by_member, key=SORTS[sort])
    idle = sorted(found.by_reservation, key=lambda row: (-row.figures.idle_ms, row.key))
    return {
        "usage": found,
        "members": members,
        "chart": chart_of(found.by_day, now.astimezone(span.zone).date()),
        "most_idle": [(row, found.owner_of(row)) for row in idle[:MOST_IDLE] if row.figures.idle_ms > 0],
        "last_run": _last_run(found),
        "released": sum(row.released for row in members),
        "never_started": sum(row.never_started for row in members),
        "never_count": sum(1 for row in found.by_reservation if row.never_started),
        "sort": sort,
        "columns": COLUMNS,
        "whole": max([1, *(_widest(row) for row in members)]),
    }


def _last_run(found: Usage) -> list[tuple[Row, User]]:
    """What held slices in the period, the newest first: also what was released a moment ago."""
    ran = sorted((row for row in found.by_reservation if row.figures.running > 0), key=lambda row: -row.key)
    return [(row, found.owner_of(row)) for row in ran[:LAST_RUN]]


def _widest(row: Row) -> int:
    return max(row.figures.reserved, row.figures.running)


def _tightest_first(statuses: Sequence[BudgetStatus]) -> list[BudgetStatus]:
    """What binds first is read first; of equals the nearest tenant."""
    return sorted(statuses, key=lambda status: (status.left, -status.tenant.depth))


def _csv(tenant: Tenant, span: Span, found: Usage) -> HttpResponse:
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    name = f"usage-{tenant.pk}-{span.first.isoformat()}-{span.last.isoformat()}.csv"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    write_usage(answer, tenant, found)
    return answer
