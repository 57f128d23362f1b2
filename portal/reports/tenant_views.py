"""Tenants and quotas: who is near a limit, who borrows; limits and budgets are edited in their own row."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.accounts.requests import SignedInRequest
from portal.inventory.models import Pool
from portal.quotas.errors import QuotaRefused
from portal.quotas.models import Period
from portal.quotas.services import set_budget, set_quota
from portal.reports.tenant_changes import last_changes
from portal.reports.tenant_forms import BudgetForm, QuotaForm, TenantForm
from portal.reports.tenant_tree import may_set_limits, tree_rows
from portal.reports.views import chosen_tenant
from portal.reservations.context import shell_of
from portal.tenants.errors import TenantRefused
from portal.tenants.models import ROLE_RANK, Membership, Role, Tenant
from portal.tenants.selectors import tenants_of
from portal.tenants.services import create_tenant

PEOPLE_SHOWN = 20


@login_required
@require_GET
def tenants(request: SignedInRequest) -> HttpResponse:
    """The tree for one pool; ``edit`` and ``field`` open one row for editing."""
    edit = request.GET.get("edit", "")
    editing = chosen_tenant(shell_of(request), edit) if edit else None
    if editing is not None and not may_set_limits(shell_of(request), editing):
        raise Http404
    field = "budget" if request.GET.get("field") == "budget" else "quota"
    return _page(request, {"editing": editing, "field": field if editing else ""})


@login_required
@require_POST
def tenant_quota(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    tenant = _editable(request, tenant_id)
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return _refused(request, tenant, "quota", _first_error(form), 422)
    try:
        set_quota(actor=request.user, tenant=tenant, **form.cleaned_data)
    except QuotaRefused as refusal:
        return _refused(request, tenant, "quota", refusal.message, 409, refusal.field)
    return _done(request, tenant, form.cleaned_data["pool"].pk)


@login_required
@require_POST
def tenant_budget(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    tenant = _editable(request, tenant_id)
    form = BudgetForm(request.POST)
    if not form.is_valid():
        return _refused(request, tenant, "budget", _first_error(form), 422)
    try:
        period = Period(form.cleaned_data["period"])
        set_budget(actor=request.user, tenant=tenant, period=period, slice_seconds=form.slice_seconds())
    except QuotaRefused as refusal:
        return _refused(request, tenant, "budget", refusal.message, 409, refusal.field)
    return _done(request, tenant, request.POST.get("pool", ""))


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


def _editable(request: SignedInRequest, tenant_id: int) -> Tenant:
    """The tenant, where this person decides about its limits; else it is not there for them."""
    shell = shell_of(request)
    tenant = chosen_tenant(shell, str(tenant_id))
    if tenant is None or not may_set_limits(shell, tenant):
        raise Http404
    return tenant


def _done(request: SignedInRequest, tenant: Tenant, pool: int | str) -> HttpResponse:
    """The row as it is now, to htmx; else back to the tree."""
    if request.htmx:
        return _page(request, {})
    return redirect(f"{reverse('tenants')}?pool={pool}&tenant={tenant.pk}")


def _refused(
    request: SignedInRequest, tenant: Tenant, field: str, why: str, status: int, wrong: str = ""
) -> HttpResponse:
    """The row stays open with what was typed, and the sentence below it."""
    context = {"editing": tenant, "field": field, "refusal": why, "wrong": wrong, "typed": request.POST}
    return _page(request, context, status)


def _first_error(form) -> str:
    return " ".join(f"{form.fields[name].label or name}: {errors[0]}" for name, errors in form.errors.items())


def _page(request: SignedInRequest, more: dict, status: int = 200) -> HttpResponse:
    shell, now = shell_of(request), timezone.now()
    asked = request.POST if request.method == "POST" else request.GET
    pools = list(Pool.objects.all())
    pool = next((one for one in pools if str(one.pk) == asked.get("pool", "")), pools[0] if pools else None)
    selected = more.get("editing") or chosen_tenant(shell, request.GET.get("tenant", ""))
    words = asked.get("q", "").strip()[:100]
    rows = tree_rows(shell, pool, now)
    context = {
        "rows": [row for row in rows if words.casefold() in row.tenant.name.casefold()],
        "pools": pools,
        "pool": pool,
        "words": words,
        "selected": selected,
        "periods": Period.choices,
        "may_add": any(shell.may(tenant, Role.ADMIN) for tenant in shell.tenants),
        **more,
    }
    if selected is not None:
        context |= _details(selected, shell.may(selected, Role.LEAD))
    return render(request, "tenants/page.html", context, status=status)


def _details(tenant: Tenant, leads: bool) -> dict:
    """Who is in it, strongest and nearest first, and what was changed about it."""
    held = Membership.objects.filter(tenant_id__in=tenant.ancestor_ids).select_related("user", "tenant")
    people = sorted(held, key=lambda one: (-len(one.tenant.path), -ROLE_RANK[Role(one.role)], str(one.user), one.pk))
    return {
        "people": [(one, one.tenant_id != tenant.pk) for one in people[:PEOPLE_SHOWN]],
        "people_count": len(people),
        "leads": leads,
        "changes": last_changes(tenant.pk),
    }
