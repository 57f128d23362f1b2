"""The fleet page: which node needs a hand, what is held now, what could be booked now."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from portal.accounts.requests import number_in
from portal.inventory.models import Gpu, Pool
from portal.live.fleet import (
    NODES_A_PAGE,
    leases_now,
    maintenance_ahead,
    needs_attention,
    nodes_in_service,
    shelves,
    standing,
)
from portal.live.fleet_room import room_now
from portal.reservations.canvas import inspected, viewer_of
from portal.reservations.context import shell_of
from portal.reservations.timeline import tenants_drawn


@login_required
@require_GET
def fleet(request: HttpRequest) -> HttpResponse:
    viewer, now = viewer_of(shell_of(request)), timezone.now()
    number = request.GET.get("pool", "")
    pool_id = number_in(number)
    attention = request.GET.get("state") == "attention"
    nodes, in_service = nodes_in_service(pool_id)
    listed = [node for node in nodes if needs_attention(node)] if attention else nodes
    page = Paginator(listed, NODES_A_PAGE).get_page(request.GET.get("page"))
    on_page = list(page)
    present = Gpu.objects.filter(node__in=on_page, present=True).select_related("node", "pool")
    gpus = list((present.filter(pool_id=pool_id) if pool_id is not None else present).order_by("node__name", "index"))
    leases = list(leases_now(gpus, now).select_related(
        "reservation__tenant", "reservation__profile", "reservation__workload", "gpu__node"))  # fmt: skip
    maintenance = maintenance_ahead(gpus, now)
    shown = shelves(on_page, gpus, leases, maintenance, viewer, now)
    rooms = room_now(gpus, leases, maintenance, now)
    rects = [slot.rect for shelf in shown for card in shelf.gpus for slot in card.slots]
    context = {
        **inspected(rects),
        "page": page,
        "shelves": shown,
        "standing": standing(nodes, in_service, pool_id, now),
        "bookable": [(room.name, room.sizes) for room in rooms if room.sizes],
        "broken": [room for room in rooms if room.lost or room.broken.stranded],
        "tenants": tenants_drawn(leases, viewer),
        "pools": Pool.objects.all(),
        "pool_id": pool_id,
        "attention": attention,
        "query": f"&pool={number}&state={request.GET.get('state', '')}" if pool_id is not None or attention else "",
    }
    return render(request, "fleet/page.html", context)
