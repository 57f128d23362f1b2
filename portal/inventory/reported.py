"""Taking over what an agent reports of its node: GPUs, profiles, versions. The portal knows no GPU model by itself."""

import datetime as dt
import logging

from django.db import transaction
from django.db.models import F, Q

from agents.protocol import GpuFact, Hello
from portal import events
from portal.inventory.gpu_changes import record_absent, record_gpu_change, watched
from portal.inventory.hearing import end_silence, record_degraded
from portal.inventory.models import Gpu, GpuState, Node, Pool
from portal.inventory.profiles import record_profiles

log = logging.getLogger(__name__)


@transaction.atomic
def record_hello(node: Node, hello: Hello, received_at: dt.datetime) -> Node:
    """The node as its agent describes itself. Liveness is the receive time; its own clock only shows the offset."""
    record_gpus(node, hello.gpus)
    end_silence(node.pk)
    offset_ms = int((hello.sent_at - received_at.timestamp()) * 1000)
    Node.objects.filter(pk=node.pk).update(
        boot_id=hello.boot_id,
        agent_version=hello.agent_version,
        driver_version=hello.driver_version,
        engine=hello.engine[:64],
        simulated=hello.simulated,
        cluster_address=hello.cluster_address,
        cluster_interface=hello.cluster_interface,
        clock_offset_ms=offset_ms,
        last_seen_at=received_at,
    )
    events.tell_everybody_on_commit("node.changed", node=node.pk)
    node.refresh_from_db()
    return node


@transaction.atomic
def record_gpus(node: Node, facts: tuple[GpuFact, ...]) -> None:
    """Bring the node's GPU rows up to what is reported; one that is not reported is absent, not deleted.

    Locks as a booking does: pools by id, and the node row last. Rows that say the same already are left alone.
    """
    _lock_pools(node, facts)
    known = {gpu.uuid: gpu for gpu in Gpu.objects.filter(node=node)}
    elsewhere = Gpu.objects.filter(uuid__in=[fact.uuid for fact in facts]).exclude(node=node)
    others, own = set(elsewhere.values_list("uuid", flat=True)), {}
    for fact in facts:
        if fact.uuid in own or fact.uuid in others:
            log.warning("node %s reports GPU %s, which is another's or twice there", node.pk, fact.uuid)
            continue
        own[fact.uuid] = fact
    record_profiles(node, own.values())
    for fact in own.values():
        _record_gpu(node, known.get(fact.uuid), fact)
    for gpu in known.values():
        if gpu.uuid not in own and Gpu.objects.filter(pk=gpu.pk, present=True).update(present=False):
            record_absent(node, gpu)
    _set_degraded(node, [f"GPU {fact.index}: {fact.fault}" for fact in facts if not fact.healthy])


def _set_degraded(node: Node, faults: list[str]) -> None:
    reason = "; ".join(faults)[:255]
    before = Node.objects.values_list("degraded_reason", flat=True).get(pk=node.pk)
    if before != reason and Node.objects.filter(pk=node.pk, degraded_reason=before).update(degraded_reason=reason):
        record_degraded(node, before, reason)


def _lock_pools(node: Node, facts: tuple[GpuFact, ...]) -> None:
    """Every pool that a GPU of the node is in or may go to."""
    near = Q(pk=node.pool_id) | Q(gpu_model__in={fact.model for fact in facts})
    near |= Q(pk__in=Gpu.objects.filter(node=node, pool__isnull=False).values("pool"))
    list(Pool.objects.select_for_update(no_key=True).filter(near).order_by("pk"))


def _record_gpu(node: Node, gpu: Gpu | None, fact: GpuFact) -> None:
    gpu = gpu or Gpu(node=node, uuid=fact.uuid)
    old = {field.attname: getattr(gpu, field.attname) for field in Gpu._meta.concrete_fields}
    before = watched(gpu) if gpu.pk else None
    moved = gpu.pk is not None and (gpu.model, gpu.mig_enabled) != (fact.model, fact.mig_enabled)
    gpu.index, gpu.model, gpu.memory_mib = fact.index, fact.model, fact.memory_mib
    gpu.memory_slices, gpu.compute_slices = fact.memory_slices, fact.compute_slices
    gpu.mig_capable, gpu.mig_enabled, gpu.pci_bus_id = fact.mig_capable, fact.mig_enabled, fact.pci_bus_id
    gpu.measured = fact.measured
    gpu.state = GpuState.OK if fact.healthy else GpuState.FAULTY
    gpu.fault, gpu.present, gpu.links = fact.fault[:255], True, fact.links
    if gpu.pool_id is None or moved:
        gpu.pool = _pool_for(node, fact)
    if gpu.pk is None or old != {field.attname: getattr(gpu, field.attname) for field in Gpu._meta.concrete_fields}:
        gpu.save()
        record_gpu_change(node, gpu, before)
        if gpu.pool_id:
            Pool.objects.filter(pk=gpu.pool_id).update(revision=F("revision") + 1)


def _pool_for(node: Node, fact: GpuFact) -> Pool | None:
    """The node's own pool when it fits or has no model yet, else the one other pool that has this model and mode."""
    if node.pool_id:
        took = Pool.objects.filter(pk=node.pool_id, gpu_model="").update(gpu_model=fact.model, mig=fact.mig_enabled)
        own = Pool.objects.get(pk=node.pool_id)
        if took or (own.gpu_model, own.mig) == (fact.model, fact.mig_enabled):
            return own
    return Pool.objects.filter(Q(gpu_model=fact.model, mig=fact.mig_enabled)).order_by("pk").first()
