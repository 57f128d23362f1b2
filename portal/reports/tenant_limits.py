"""Setting what a tenant may hold, spend and ask for: in its row of the tree, or in the panels beside it."""

from collections.abc import Callable, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.requests import SignedInRequest
from portal.inventory.models import Pool
from portal.quotas.errors import QuotaRefused
from portal.quotas.models import Period, Quota
from portal.quotas.policies import policy_of
from portal.quotas.services import set_budget
from portal.reports.tenant_forms import BudgetForm, QuotaForm
from portal.reports.tenant_page import tenants_page
from portal.reports.tenant_policy import PolicyForm, field_of
from portal.reports.tenant_quota_form import PeriodForm
from portal.reports.tenant_tree import may_set_limits, quotas_of, valid_at
from portal.reports.views import chosen_tenant
from portal.reservations.context import shell_of
from portal.reservations.narrowing import change_policy, change_quota, drop_quota
from portal.reservations.uncovered import Uncovered
from portal.tenants.models import Tenant


@login_required
@require_POST
def tenant_quota(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    """The weights of the row that is valid now, whose dates and hours stay; where there is none, of one for always."""
    tenant = editable_tenant(request, tenant_id)
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return _row_refused(request, tenant, "quota", _first_error(form), 422)
    pool = form.cleaned_data["pool"]
    row = next((one for one in quotas_of(pool, [tenant.pk])[tenant.pk] if valid_at(one, timezone.now())), None)
    kept = {"quota": row, "valid": row.valid} if row else {}
    try:
        _quota, uncovered = change_quota(actor=request.user, tenant=tenant, **form.cleaned_data, **kept)
    except QuotaRefused as refusal:
        return _row_refused(request, tenant, "quota", refusal.message, 409, refusal.field)
    return _done(request, tenant, pool.pk, uncovered)


@login_required
@require_POST
def tenant_budget(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    tenant = editable_tenant(request, tenant_id)
    form = BudgetForm(request.POST)
    if not form.is_valid():
        return _row_refused(request, tenant, "budget", _first_error(form), 422)
    try:
        period = Period(form.cleaned_data["period"])
        set_budget(actor=request.user, tenant=tenant, period=period, slice_seconds=form.slice_seconds())
    except QuotaRefused as refusal:
        return _row_refused(request, tenant, "budget", refusal.message, 409, refusal.field)
    return _done(request, tenant, request.POST.get("pool", ""))


@login_required
@require_POST
def tenant_quota_period(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    """One row of a quota with its dates and hours: the one that is named, or a new one."""
    tenant = editable_tenant(request, tenant_id)
    form = PeriodForm(request.POST)
    if not form.is_valid():
        return _panel_refused(request, tenant, {"period_form": form}, 422)
    asked = form.cleaned_data
    row = Quota.objects.filter(tenant=tenant, pool=asked["pool"], pk=asked["quota"]).first() if asked["quota"] else None
    if asked["quota"] and row is None:
        raise Http404

    def change() -> list[Uncovered]:
        return change_quota(
            actor=request.user, tenant=tenant, pool=asked["pool"], guaranteed=asked["guaranteed"],
            limit=asked["limit"], valid=asked["valid"], hours=form.hours, quota=row)[1]  # fmt: skip

    return _change_in_panel(request, tenant, {"period_form": form}, form, change)


@login_required
@require_POST
def tenant_quota_remove(request: SignedInRequest, tenant_id: int, quota_id: int) -> HttpResponse:
    tenant = editable_tenant(request, tenant_id)
    row = Quota.objects.filter(tenant=tenant, pk=quota_id).select_related("pool").first()
    if row is None:
        raise Http404
    form = PeriodForm(row=row)
    try:
        uncovered = drop_quota(actor=request.user, tenant=tenant, pool=row.pool, quota_id=row.pk)
    except QuotaRefused as refusal:
        return _panel_refused(request, tenant, {"period_form": form, "period_refusal": refusal.message}, 409)
    return _done(request, tenant, row.pool_id, uncovered)


@login_required
@require_POST
def tenant_policy(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    tenant = editable_tenant(request, tenant_id)
    form = policy_form(tenant, request.POST)
    if not form.is_valid():
        return _panel_refused(request, tenant, {"policy_form": form}, 422)

    def change() -> list[Uncovered]:
        return change_policy(actor=request.user, tenant=tenant, **form.policy_fields())[1]

    return _change_in_panel(request, tenant, {"policy_form": form}, form, change)


def policy_form(tenant: Tenant, data=None) -> PolicyForm:
    """Offers what the tenant above allows."""
    above = policy_of(tenant.parent) if tenant.parent else None
    return PolicyForm(data, tenant=tenant, above=above, pools=list(Pool.objects.all()))


def editable_tenant(request: SignedInRequest, tenant_id: int) -> Tenant:
    """The tenant, where this person decides about its limits; else it is not there for them."""
    shell = shell_of(request)
    tenant = chosen_tenant(shell, str(tenant_id))
    if tenant is None or not may_set_limits(shell, tenant):
        raise Http404
    return tenant


def _change_in_panel(
    request: SignedInRequest,
    tenant: Tenant,
    context: dict[str, Any],
    form: forms.Form,
    change: Callable[[], list[Uncovered]],
) -> HttpResponse:
    """Done, or the form again with the sentence beside its field and everything as it was typed."""
    try:
        uncovered = change()
    except QuotaRefused as refusal:
        field = {"valid": "valid_from", "hours": None}.get(refusal.field, field_of(refusal.field))
        form.add_error(field if field in form.fields else None, refusal.message)
        return _panel_refused(request, tenant, context, 409)
    return _done(request, tenant, request.POST.get("pool", ""), uncovered)


def _done(
    request: SignedInRequest, tenant: Tenant, pool: int | str, uncovered: Sequence[Uncovered] = ()
) -> HttpResponse:
    """The row as it is now, to htmx or with what is no longer covered below it; else back to the tree."""
    messages.success(request, _("Saved: %(tenant)s.") % {"tenant": tenant})
    if request.htmx or uncovered:
        return tenants_page(request, {"saved": tenant, "uncovered": uncovered})
    return redirect(f"{reverse('tenants')}?pool={pool}&tenant={tenant.pk}")


def _row_refused(
    request: SignedInRequest, tenant: Tenant, field: str, why: str, status: int, wrong: str = ""
) -> HttpResponse:
    """The row stays open with what was typed, and the sentence below it."""
    context = {"editing": tenant, "field": field, "refusal": why, "wrong": wrong, "typed": request.POST}
    return tenants_page(request, context, status)


def _panel_refused(request: SignedInRequest, tenant: Tenant, context: dict[str, Any], status: int) -> HttpResponse:
    return tenants_page(request, {"saved": tenant, **context}, status)


def _first_error(form: forms.Form) -> str:
    return " ".join(f"{form.fields[name].label or name}: {errors[0]}" for name, errors in form.errors.items())
