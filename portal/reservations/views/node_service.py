"""Cordon, drain and put back a node: GET shows who is affected and asks, POST does it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Node, NodeState
from portal.inventory.views import for_platform_admins
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.cordoning import counting_on
from portal.reservations.draining import preview_service, set_service
from portal.reservations.errors import ReservationRefused
from portal.reservations.maintenance_forms import ServiceForm
from portal.reservations.maintenance_listing import affected_shown


@require_http_methods(["GET", "POST"])
@for_platform_admins
def node_state(request: PageRequest, node_id: int) -> HttpResponse:
    node = get_object_or_404(Node, pk=node_id)
    asked = request.POST if request.method == "POST" else request.GET
    form = ServiceForm(asked)
    if not form.is_valid():
        return _ask(request, node, form, 422)
    if request.method != "POST":
        return _ask(request, node, form)
    state = NodeState(form.cleaned_data["state"])
    try:
        node, affected = set_service(actor=request.user, node=node, state=state, until=form.until)
    except (InventoryRefused, ReservationRefused) as refusal:
        form.refuse(refusal)
        return _ask(request, node, form, getattr(refusal, "status", 409))
    messages.success(request, _said(node, len(affected.effects), affected.counts["moved"]))
    return redirect("node", node_id)


def _ask(request: HttpRequest, node: Node, form: ServiceForm, status: int = 200) -> HttpResponse:
    state = NodeState(form.cleaned_data["state"]) if "state" in form.cleaned_data else None
    until = form.until if form.until and form.until > timezone.now() else None
    context: dict[str, object] = {"node": node, "form": form, "state": state}
    if state:
        now, shell = timezone.now(), shell_of(request)
        context |= affected_shown(preview_service(node, state, until, now), shell, counting_on(node, state, now))
    return render(request, "nodes/maintenance_service.html", context, status=status)


def _said(node: Node, affected: int, moved: int) -> str:
    told = {"node": node, "state": node.get_state_display(), "moved": moved, "all": affected}
    if not affected:
        return _("%(node)s is %(state)s.") % told
    return _("%(node)s is %(state)s. %(moved)d of %(all)d reservations have another place.") % told
