"""Maintenance: everybody reads when; platform admins plan it, see who is affected before they save, and end it."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.inventory.views import for_platform_admins
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.maintenance import (
    cancel_maintenance,
    change_maintenance,
    end_maintenance,
    plan_maintenance,
    preview_maintenance,
)
from portal.reservations.maintenance_closing import closing_of
from portal.reservations.maintenance_effects import Affected, affected_by
from portal.reservations.maintenance_forms import EndForm, MaintenanceForm, first_values, local_parts
from portal.reservations.maintenance_listing import PAST_A_PAGE, affected_shown, open_rows, past_rows, rows, state_of
from portal.reservations.maintenance_nodes import left_alone
from portal.reservations.models import Maintenance


@login_required
@require_GET
def maintenance_list(request: PageRequest) -> HttpResponse:
    now = timezone.now()
    page = Paginator(past_rows(), PAST_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "open": [(row, *state_of(row, now)) for row in open_rows()],
        "past": [(row, *state_of(row, now)) for row in page],
        "page": page,
    }
    return render(request, "nodes/maintenance.html", context)


@require_http_methods(["GET", "POST"])
@for_platform_admins
def maintenance_plan(request: PageRequest) -> HttpResponse:
    if request.method != "POST":
        target = "".join(f"{kind}{request.GET[name]}" for kind, name in (("n", "node"), ("p", "pool"))
                         if request.GET.get(name, "").isdecimal())  # fmt: skip
        form = MaintenanceForm(initial=first_values(target, timezone.now()))
        return render(request, "nodes/maintenance_plan.html", {"form": form})
    form = MaintenanceForm(request.POST)
    if not form.is_valid() or form.during is None:
        return render(request, "nodes/maintenance_plan.html", {"form": form}, status=422)
    try:
        row, affected = plan_maintenance(
            actor=request.user, node=form.node, pool=form.pool, during=form.during,
            reason=form.cleaned_data["reason"])  # fmt: skip
    except ReservationRefused as refusal:
        form.refuse(refusal)
        return render(request, "nodes/maintenance_plan.html", {"form": form}, status=refusal.status)
    messages.success(request, _said(affected))
    return _see(row)


@require_GET
@for_platform_admins
def maintenance_preview(request: PageRequest) -> HttpResponse:
    """Who would be affected by what the form says now, nothing while it says nothing whole; and which hour is meant."""
    form = MaintenanceForm(request.GET)
    form.is_valid()
    affected = None
    if form.during is not None and "target" in form.cleaned_data:
        affected = preview_maintenance(form.node, form.pool, form.during)
    context = {"form": form, **affected_shown(affected, shell_of(request))}
    return render(request, "nodes/maintenance_preview.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def maintenance_one(request: PageRequest, number: int) -> HttpResponse:
    """GET shows it, POST moves its end."""
    row = get_object_or_404(rows(), pk=number)
    if request.method != "POST":
        return _page(request, row, EndForm(initial=local_parts("end", row.during.upper)))
    return _move_end(request, number=number)


@for_platform_admins
def _move_end(request: PageRequest, number: int) -> HttpResponse:
    row = get_object_or_404(rows(), pk=number)
    form = EndForm(request.POST)
    if not form.is_valid() or form.ends_at is None:
        return _page(request, row, form, 422)
    try:
        row, affected = change_maintenance(actor=request.user, maintenance=row, ends_at=form.ends_at)
    except ReservationRefused as refusal:
        form.refuse(refusal)
        return _page(request, row, form, refusal.status)
    messages.success(request, _said(affected))
    return _see(row)


@require_POST
@for_platform_admins
def maintenance_end(request: PageRequest, number: int) -> HttpResponse:
    """Cancel what has not begun, end what has."""
    row = get_object_or_404(rows(), pk=number)
    begun = row.started_at is not None or row.during.lower <= timezone.now()
    try:
        (end_maintenance if begun else cancel_maintenance)(actor=request.user, maintenance=row)
    except ReservationRefused as refusal:
        messages.error(request, str(refusal))
        return _see(row)
    messages.success(request, _("The maintenance is ended.") if begun else _("The maintenance is cancelled."))
    return _see(row)


def _page(request: PageRequest, row: Maintenance, form: EndForm, status: int = 200) -> HttpResponse:
    now = timezone.now()
    state, word = state_of(row, now)
    shell = shell_of(request)
    affected = affected_by(closing_of(row), now) if row.is_open and shell.is_platform_admin else Affected()
    context = {
        "row": row, "state": state, "word": word, "form": form, **affected_shown(affected, shell),
        "left_alone": left_alone(row) if row.is_open else [],
        "begun": row.started_at is not None or row.during.lower <= now,
    }  # fmt: skip
    return render(request, "nodes/maintenance_one.html", context, status=status)


def _said(affected: Affected) -> str:
    if not affected.effects:
        return _("Saved. Nobody is affected.")
    told = {"moved": affected.counts["moved"], "all": len(affected.effects)}
    return _("Saved. %(moved)d of %(all)d reservations have another place; every owner is told.") % told


def _see(row: Maintenance) -> HttpResponse:
    response = redirect("maintenance_one", number=row.pk)
    response.status_code = 303
    return response
