"""The audit log: what happened, newest first, for platform admins and for those who lead a tenant."""

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from portal.accounts.middleware import zone_of
from portal.accounts.requests import SignedInRequest, number_in
from portal.audit.models import AuditEntry
from portal.audit.sealing import chain_head
from portal.audit.selectors import Wanted, entries_matching, page_before
from portal.reports.audit_csv import audit_lines
from portal.reports.audit_forms import AuditFilterForm
from portal.reports.audit_trail import entries_of, told
from portal.reservations.context import shell_of
from portal.tenants.models import Role

ROWS_A_PAGE = 40
FILTERS = ("since", "until", "who", "group", "tenant", "subject", "via")


@login_required
@require_GET
@never_cache
def audit(request: SignedInRequest) -> HttpResponseBase:
    """Filtered by the address, paged by the id of the oldest row; a filter that makes no sense is said so (422)."""
    seen = entries_of(request.user)
    if seen is None:
        raise Http404
    form, wanted = _asked(request)
    rows = entries_matching(seen, wanted or Wanted())
    if request.GET.get("format") == "csv" and wanted is not None:
        return _csv(rows)
    return _page(request, form, rows, status=422 if wanted is None else 200)


def _asked(request: SignedInRequest) -> tuple[AuditFilterForm, Wanted | None]:
    """None where the filter makes no sense. A tenant that the reader does not lead does not exist."""
    shell = shell_of(request)
    tenants = [tenant for tenant in shell.tenants if shell.may(tenant, Role.LEAD)]
    form = AuditFilterForm(request.GET, tenants=tenants)
    if form.is_valid():
        return form, form.wanted(zone_of(request.user.time_zone))
    if form.has_error("tenant"):
        raise Http404
    return form, None


def _page(request: SignedInRequest, form: AuditFilterForm, rows: QuerySet[AuditEntry], status: int) -> HttpResponse:
    before = number_in(request.GET.get("before", ""))
    page, more = page_before(rows, before, ROWS_A_PAGE)
    asked = {name: value for name in FILTERS if (value := request.GET.get(name, "").strip())}
    context = {
        "form": form,
        "refusal": next((error for errors in form.errors.values() for error in errors), ""),
        "rows": told(page),
        "older": page[-1].pk if more else None,
        "paged": before is not None,
        "filtered": bool(asked) and status == 200,
        "query": urlencode(asked),
        "head": chain_head() if shell_of(request).is_platform_admin else None,
    }
    return render(request, "audit/page.html", context, status=status)


def _csv(rows: QuerySet[AuditEntry]) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(audit_lines(rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="audit-{timezone.now():%Y-%m-%d}.csv"'
    return answer
