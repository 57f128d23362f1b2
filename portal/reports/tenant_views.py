"""Tenants and quotas: who is near a limit, who borrows; what opens for editing, and adding a tenant."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from portal.accounts.requests import SignedInRequest, number_in
from portal.quotas.models import Quota
from portal.quotas.selectors import with_hours
from portal.reports.tenant_forms import TenantForm
from portal.reports.tenant_limits import editable_tenant, policy_form
from portal.reports.tenant_page import tenants_page
from portal.reports.tenant_quota_form import PeriodForm
from portal.reports.tenant_tree import next_of, valid_at
from portal.reservations.uncovered import uncovered_reservations
from portal.tenants.errors import TenantRefused
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import tenants_of
from portal.tenants.services import create_tenant

UNCOVERED_A_PAGE = 50


@login_required
@require_GET
def tenants(request: SignedInRequest) -> HttpResponse:
    """The tree for one pool. ``edit`` opens a tenant: its row for ``field`` quota or budget, or a panel beside the tree
    for ``policy`` or ``period`` (one row of its quota, named by ``quota``, or a new one)."""
    if not request.GET.get("edit"):
        return tenants_page(request, {})
    tenant = editable_tenant(request, number_in(request.GET["edit"]) or 0)
    field = request.GET.get("field", "")
    if field == "policy":
        return tenants_page(request, {"saved": tenant, "policy_form": policy_form(tenant)})
    if field == "period":
        form = _period_form(tenant, request.GET.get("quota", ""))
        return tenants_page(request, {"saved": tenant, "period_form": form})
    if field == "quota" and (dated := _dated_form(tenant, request.GET.get("pool", ""))):
        return tenants_page(request, {"saved": tenant, "period_form": dated})
    opened: dict[str, Any] = {"editing": tenant, "field": "budget" if field == "budget" else "quota"}
    return tenants_page(request, opened)


@login_required
@require_GET
def tenant_uncovered(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    """What narrowing told once, as it is now: future reservations that would be refused today."""
    tenant = editable_tenant(request, tenant_id)
    rows = list(uncovered_reservations(tenant, timezone.now()).values())
    page = Paginator(rows, UNCOVERED_A_PAGE).get_page(request.GET.get("page"))
    return render(request, "tenants/uncovered_page.html", {"tenant": tenant, "page": page})


def _dated_form(tenant: Tenant, pool_id: str) -> PeriodForm | None:
    """Of the next quota with dates where none is valid now: what is typed into the row would be for always, and meet
    it."""
    pool, now = number_in(pool_id), timezone.now()
    rows = with_hours(Quota.objects.filter(tenant=tenant, pool=pool)) if pool else []
    ahead = None if any(valid_at(row, now) for row in rows) else next_of(rows, now)
    return PeriodForm(row=ahead) if ahead else None


def _period_form(tenant: Tenant, quota_id: str) -> PeriodForm:
    if not quota_id:
        return PeriodForm()
    rows = with_hours(Quota.objects.filter(tenant=tenant, pk=number_in(quota_id) or 0))
    if not rows:
        raise Http404
    return PeriodForm(row=rows[0])


@login_required
@require_http_methods(["GET", "POST"])
def tenant_add(request: SignedInRequest) -> HttpResponse:
    parents = tenants_of(request.user, Role.ADMIN).filter(closed_at__isnull=True)
    if not parents.exists():
        raise Http404
    form = TenantForm(request.POST or None, parents=parents, initial={"parent": request.GET.get("parent")})
    status = 422 if request.method == "POST" else 200
    if form.is_valid():
        try:
            tenant = create_tenant(actor=request.user, **form.cleaned_data)
            return redirect(f"{reverse('tenants')}?tenant={tenant.pk}")
        except TenantRefused as refusal:
            form.add_error(None, refusal.message)
            status = 409
    return render(request, "tenants/add.html", {"form": form}, status=status)
