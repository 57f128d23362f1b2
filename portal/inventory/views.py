"""Pools and nodes, for platform admins: everybody else gets 404."""

from collections.abc import Callable
from functools import wraps

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.accounts.requests import SignedInRequest
from portal.inventory import enrolment, services
from portal.inventory.agent_package import install_command, is_outdated
from portal.inventory.errors import InventoryRefused
from portal.inventory.forms import NodeForm, PoolForm, PoolLimitsForm, RackForm, limits_shown
from portal.inventory.listing import NODES_A_PAGE, SHOWN, gpus_listed, nodes_listed, pools_listed, ways_listed
from portal.inventory.models import Node, Pool
from portal.inventory.weights import weights_listed
from portal.tenants.selectors import is_platform_admin

View = Callable[..., HttpResponse]


def for_platform_admins(view: View) -> View:
    """What is not yours does not exist."""

    @login_required
    @wraps(view)
    def guarded(request: SignedInRequest, *args, **kwargs) -> HttpResponse:
        if not is_platform_admin(request.user):
            raise Http404
        return view(request, *args, **kwargs)

    return guarded


@require_GET
@for_platform_admins
def node_list(request: SignedInRequest) -> HttpResponse:
    retired = request.GET.get("retired") == "1"
    page = Paginator(nodes_listed(retired), NODES_A_PAGE).get_page(request.GET.get("page"))
    shown = [(node, *SHOWN[node.shown_state]) for node in page]
    pools = list(pools_listed())
    context = {"pools": pools, "pool_count": len(pools), "page": page, "nodes": shown, "retired": retired}
    return render(request, "nodes/list.html", context)


@require_http_methods(["GET", "POST"])
@for_platform_admins
def pool_add(request: SignedInRequest) -> HttpResponse:
    form = PoolForm(request.POST or None, initial=limits_shown(Pool()))
    status = 422 if request.method == "POST" else 200
    if form.is_valid():
        try:
            services.create_pool(actor=request.user, name=form.cleaned_data["name"], **form.limits())
            return redirect("nodes")
        except InventoryRefused as refusal:
            form.add_error(None, str(refusal))
            status = 409
    return render(request, "nodes/pool.html", {"form": form}, status=status)


@require_http_methods(["GET", "POST"])
@for_platform_admins
def pool_edit(request: SignedInRequest, pool_id: int) -> HttpResponse:
    pool = get_object_or_404(Pool, pk=pool_id)
    form = PoolLimitsForm(request.POST or None, initial=limits_shown(pool))
    status = 422 if request.method == "POST" else 200
    if form.is_valid():
        try:
            services.change_pool(actor=request.user, pool=pool, **form.limits())
            return redirect("nodes")
        except InventoryRefused as refusal:
            form.add_error(None, str(refusal))
            status = 409
    context = {"form": form, "pool": pool, "weights": weights_listed(pool)}
    return render(request, "nodes/pool.html", context, status=status)


@never_cache
@require_http_methods(["GET", "POST"])
@for_platform_admins
def node_add(request: SignedInRequest) -> HttpResponse:
    form = NodeForm(request.POST or None, initial={"pool": request.GET.get("pool")})
    status = 422 if request.method == "POST" else 200
    if form.is_valid():
        try:
            node = services.create_node(actor=request.user, **form.cleaned_data)
            return _enrolment_page(request, node)
        except InventoryRefused as refusal:
            form.add_error(None, str(refusal))
            status = 409
    return render(request, "nodes/add.html", {"form": form}, status=status)


@require_GET
@for_platform_admins
def node_detail(request: SignedInRequest, node_id: int) -> HttpResponse:
    return _node_page(request, node_id)


@never_cache
@require_POST
@for_platform_admins
def node_token(request: SignedInRequest, node_id: int) -> HttpResponse:
    node = get_object_or_404(Node.objects.select_related("pool"), pk=node_id)
    try:
        return _enrolment_page(request, node)
    except InventoryRefused as refusal:
        return _node_page(request, node_id, str(refusal))


@require_POST
@for_platform_admins
def node_retire(request: SignedInRequest, node_id: int) -> HttpResponse:
    node = get_object_or_404(Node, pk=node_id)
    try:
        enrolment.retire_node(actor=request.user, node=node)
    except InventoryRefused as refusal:
        return _node_page(request, node_id, str(refusal))
    messages.success(request, _("%(node)s is retired.") % {"node": node})
    return redirect("nodes")


@require_POST
@for_platform_admins
def node_rack(request: SignedInRequest, node_id: int) -> HttpResponse:
    node = get_object_or_404(Node, pk=node_id)
    form = RackForm(request.POST)
    if not form.is_valid():
        return _node_page(request, node_id, rack_form=form)
    try:
        services.set_node_rack(actor=request.user, node=node, rack=form.cleaned_data["rack"])
    except InventoryRefused as refusal:
        return _node_page(request, node_id, str(refusal))
    return redirect("node", node_id)


def _node_page(
    request: SignedInRequest, node_id: int, refusal: str = "", rack_form: RackForm | None = None
) -> HttpResponse:
    node = get_object_or_404(Node.objects.select_related("pool"), pk=node_id)
    state, word = SHOWN[node.shown_state]
    gpus = gpus_listed(node)
    context = {"node": node, "state": state, "word": word, "gpus": gpus, "gpu_count": len(gpus), "refusal": refusal,
               "ways": ways_listed([row.gpu for row in gpus]),
               "update": install_command() if is_outdated(node.agent_version) else "",
               "rack_form": rack_form or RackForm(initial={"rack": node.rack})}  # fmt: skip
    status = 409 if refusal else 422 if rack_form else 200
    return render(request, "nodes/node.html", context, status=status)


def _enrolment_page(request: SignedInRequest, node: Node) -> HttpResponse:
    """The one time that the token is readable: it is in this answer and nowhere else."""
    token = enrolment.new_enrolment_token(node=node, actor=request.user)
    context = {"node": node, "command": install_command(token, node.name),
               "minutes": int(settings.ENROLMENT_TOKEN_LIFETIME.total_seconds() // 60)}  # fmt: skip
    return render(request, "nodes/enrol.html", context)
