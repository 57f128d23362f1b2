"""Writing a lost node off: about its leases, so it lives above the pages of pools and nodes."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.requests import SignedInRequest
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Node
from portal.inventory.views import for_platform_admins
from portal.reservations.writing_off import write_off_node


@require_POST
@for_platform_admins
def node_write_off(request: SignedInRequest, node_id: int) -> HttpResponse:
    node = get_object_or_404(Node, pk=node_id)
    try:
        write_off_node(actor=request.user, node=node)
    except InventoryRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("node", node_id)
    messages.success(request, _("%(node)s is written off.") % {"node": node})
    return redirect("nodes")
