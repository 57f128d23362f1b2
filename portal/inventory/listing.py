"""Pools and nodes as their admins read them."""

from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.inventory.models import EnrolmentToken, Gpu, Node, NodeState, Pool

NODES_A_PAGE = 100

# class of parts/state and word, by Node.shown_state
SHOWN = {
    "ready": ("ready", gettext_lazy("Ready")),
    "cordoned": ("draining", gettext_lazy("Cordoned")),
    "draining": ("draining", gettext_lazy("Draining")),
    "maintenance": ("maint", gettext_lazy("Maintenance")),
    "retired": ("ended", gettext_lazy("Retired")),
    "waiting": ("waiting", gettext_lazy("Waits for its agent")),
    "silent": ("lost", gettext_lazy("Silent")),
    "degraded": ("degraded", gettext_lazy("Degraded")),
}


@dataclass(frozen=True)
class GpuRow:
    """A GPU and, where it serves no pool, the sentence that says why."""

    gpu: Gpu
    why_no_pool: str


def pools_listed() -> QuerySet[Pool]:
    return Pool.objects.annotate(
        gpu_count=Count("gpus", filter=Q(gpus__present=True)),
        node_count=Count("gpus__node", filter=Q(gpus__present=True), distinct=True),
    ).order_by("name")


def nodes_listed(retired: bool = False) -> QuerySet[Node]:
    """Nodes with the number of their GPUs; retired ones only when asked for."""
    rows = (
        Node.objects.select_related("pool")
        .order_by("name")
        .annotate(
            gpu_count=Count("gpus", filter=Q(gpus__present=True)),
            homeless_count=Count("gpus", filter=Q(gpus__present=True, gpus__pool__isnull=True)),
            token_waits=Exists(
                EnrolmentToken.objects.filter(node=OuterRef("pk"), used_at__isnull=True, expires_at__gt=timezone.now())
            ),
        )
    )
    return rows.filter(state=NodeState.RETIRED) if retired else rows.exclude(state=NodeState.RETIRED)


def gpus_listed(node: Node) -> list[GpuRow]:
    """Every GPU the node ever reported, those that are gone last."""
    gpus = Gpu.objects.filter(node=node).select_related("pool").order_by("-present", "index")
    return [GpuRow(gpu, "" if gpu.pool_id else why_no_pool(gpu, node)) for gpu in gpus]


def ways_listed(gpus: list[Gpu]) -> list[tuple[int, list[str]]]:
    """How each GPU that is there reaches each, row by row; "" is unknown. Nothing where nothing is known."""
    present = [gpu for gpu in gpus if gpu.present]
    if not any(gpu.links for gpu in present):
        return []
    return [(gpu.index, [(gpu.links or {}).get(other.uuid, "") for other in present]) for gpu in present]


def why_no_pool(gpu: Gpu, node: Node) -> str:
    """Why no pool took this GPU when its agent reported it. ``node.pool`` must be loaded."""
    wanted = {"model": gpu.model, "mode": mode_word(gpu.mig_enabled)}
    if node.pool and node.pool.gpu_model:
        has = {"pool": node.pool, "its": node.pool.gpu_model, "its_mode": mode_word(node.pool.mig)}
        return _("%(pool)s takes %(its)s with %(its_mode)s; no pool takes %(model)s with %(mode)s.") % {**has, **wanted}
    return _("No pool takes %(model)s with %(mode)s. Add one and name it as the node's pool.") % wanted


def mode_word(mig: bool | None) -> str:
    return _("MIG on") if mig else _("MIG off")
