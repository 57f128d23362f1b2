"""Pools and nodes: seen by everyone signed in; whose a held slice is, only by those who may see the tenant."""

from django.db.models import Prefetch
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.pages import listed, page_of
from portal.api.shapes.fleet import NodeShape, PoolShape, RackAsked, RackShape
from portal.inventory.models import Gpu, Node, NodeState, Pool, Profile
from portal.inventory.services import set_node_rack
from portal.reservations.models import LIVE, Lease
from portal.tenants.selectors import is_platform_admin, tenants_of


class PoolsView(APIView):
    @extend_schema(operation_id="pools", responses=page_of(PoolShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """Every pool with the profiles that its GPUs offer."""
        return listed(self, request, Pool.objects.all(), lambda pools: PoolShape(with_profiles(pools), many=True).data)


class FleetView(APIView):
    @extend_schema(operation_id="fleet", responses=page_of(NodeShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """Every node that is not retired, its GPUs, and the spans that are held on them now."""
        nodes = Node.objects.exclude(state=NodeState.RETIRED).prefetch_related(_gpus())
        seen = set(tenants_of(request.user).values_list("pk", flat=True))
        return listed(self, request, nodes, lambda page: NodeShape(with_held(page, seen), many=True).data)


class RackView(APIView):
    @extend_schema(operation_id="set_node_rack", request=RackAsked, responses=RackShape)
    def post(self, request: SignedInApiRequest, node_id: int) -> Response:
        """Where the node stands; "" where nobody knows."""
        if not is_platform_admin(request.user):
            raise Http404
        node = get_object_or_404(Node, pk=node_id)
        asked = RackAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        node = set_node_rack(actor=request.user, node=node, rack=asked.validated_data["rack"])
        return Response(RackShape({"node": node.pk, "rack": node.rack}).data)


def with_profiles(pools: list[Pool]) -> list[Pool]:
    """Each pool with its ``profiles``, in one query for all."""
    shapes: dict[tuple[str, bool | None], list[Profile]] = {}
    for profile in Profile.objects.filter(gpu_model__in={pool.gpu_model for pool in pools}):
        shapes.setdefault((profile.gpu_model, profile.mig), []).append(profile)
    for pool in pools:
        pool.profiles = shapes.get((pool.gpu_model, pool.mig), [])  # type: ignore[attr-defined]
    return pools


def with_held(nodes: list[Node], seen: set[int]) -> list[dict]:
    return [_flat(node, NODE_FIELDS) | {"gpus": [_gpu(gpu, seen) for gpu in node.gpus.all()]} for node in nodes]


NODE_FIELDS = (
    "pk", "name", "pool_id", "rack", "state", "shown_state", "silent_since", "degraded_reason", "last_seen_at",
    "simulated",
)  # fmt: skip
GPU_FIELDS = (
    "pk", "index", "uuid", "model", "pool_id", "memory_mib", "memory_slices", "compute_slices", "mig_enabled", "state",
    "fault", "present", "links",
)  # fmt: skip


def _flat(row: Node | Gpu, fields: tuple[str, ...]) -> dict:
    return {field: getattr(row, field) for field in fields}


def _gpu(gpu: Gpu, seen: set[int]) -> dict:
    held = [_held(lease, lease.reservation.tenant_id in seen) for lease in gpu.held_now]  # type: ignore[attr-defined]
    return _flat(gpu, GPU_FIELDS) | {"held": held, "slices_held": sum(one["end"] - one["start"] for one in held)}


def _held(lease: Lease, shown: bool) -> dict:
    return {
        "start": lease.span.lower,
        "end": lease.span.upper,
        "state": lease.state,
        "until": lease.during.upper,
        "reservation": lease.reservation_id if shown else None,
        "tenant": lease.reservation.tenant_id if shown else None,
    }


def _gpus() -> Prefetch:
    """GPUs with the leases that hold a span now: those of this moment, and those that are late to leave."""
    leases = Lease.objects.filter(state__in=LIVE, during__startswith__lte=timezone.now())
    leases = leases.select_related("reservation").order_by("span")
    gpus = Gpu.objects.prefetch_related(Prefetch("leases", queryset=leases, to_attr="held_now"))
    return Prefetch("gpus", queryset=gpus.order_by("index"))
