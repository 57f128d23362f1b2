"""Taking over what an agent reports of its node: GPUs, profiles, versions. The portal knows no GPU model by itself."""

import datetime as dt
import logging

from django.db import transaction
from django.db.models import F, Q

from agents.protocol import GpuFact, Hello, ProfileFact
from portal import events
from portal.inventory.models import Gpu, GpuState, Node, Pool, Profile

log = logging.getLogger(__name__)


def default_weight(compute_slices: int, memory_slices: int) -> int:
    """The compute slices or, where more, 7/8 of the memory slices rounded half down; at least 1."""
    return max(1, compute_slices, (7 * memory_slices + 3) // 8)


@transaction.atomic
def record_hello(node: Node, hello: Hello, received_at: dt.datetime) -> Node:
    """The node as its agent describes itself. Liveness is the receive time; its own clock only shows the offset."""
    offset_ms = int((hello.sent_at - received_at.timestamp()) * 1000)
    Node.objects.filter(pk=node.pk).update(
        boot_id=hello.boot_id,
        agent_version=hello.agent_version,
        driver_version=hello.driver_version,
        engine=hello.engine[:64],
        simulated=hello.simulated,
        clock_offset_ms=offset_ms,
        last_seen_at=received_at,
        silent_since=None,
    )
    record_gpus(node, hello.gpus)
    events.tell_everybody_on_commit("node.changed", node=node.pk)
    node.refresh_from_db()
    return node


@transaction.atomic
def record_gpus(node: Node, facts: tuple[GpuFact, ...]) -> None:
    """Bring the node's GPU rows up to what is reported; one that is not reported is absent, not deleted."""
    known = {gpu.uuid: gpu for gpu in Gpu.objects.filter(node=node)}
    seen = set()
    for fact in facts:
        if fact.uuid in seen or Gpu.objects.filter(uuid=fact.uuid).exclude(node=node).exists():
            log.warning("node %s reports GPU %s, which is another's or twice there", node.pk, fact.uuid)
            continue
        seen.add(fact.uuid)
        _record_profiles(fact)
        _record_gpu(node, known.get(fact.uuid), fact)
    Gpu.objects.filter(node=node, present=True).exclude(uuid__in=seen).update(present=False)
    faults = [f"GPU {fact.index}: {fact.fault}" for fact in facts if not fact.healthy]
    Node.objects.filter(pk=node.pk).update(degraded_reason="; ".join(faults)[:255])


def _record_gpu(node: Node, gpu: Gpu | None, fact: GpuFact) -> None:
    gpu = gpu or Gpu(node=node, uuid=fact.uuid)
    old = {field.attname: getattr(gpu, field.attname) for field in Gpu._meta.concrete_fields}
    moved = gpu.pk is not None and (gpu.model, gpu.mig_enabled) != (fact.model, fact.mig_enabled)
    gpu.index, gpu.model, gpu.memory_mib = fact.index, fact.model, fact.memory_mib
    gpu.memory_slices, gpu.compute_slices = fact.memory_slices, fact.compute_slices
    gpu.mig_capable, gpu.mig_enabled, gpu.pci_bus_id = fact.mig_capable, fact.mig_enabled, fact.pci_bus_id
    gpu.state = GpuState.OK if fact.healthy else GpuState.FAULTY
    gpu.fault, gpu.present = fact.fault[:255], True
    if gpu.pool_id is None or moved:
        gpu.pool = _pool_for(node, fact)
    if gpu.pk is None or old != {field.attname: getattr(gpu, field.attname) for field in Gpu._meta.concrete_fields}:
        gpu.save()
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


def _record_profiles(fact: GpuFact) -> None:
    for profile in fact.profiles:
        if not _fits(profile, fact):
            log.warning("GPU %s reports profile %s outside its canvas", fact.uuid, profile.name)
            continue
        reported = {
            "nvml_profile_id": profile.profile_id,
            "size": profile.size,
            "starts": sorted(set(profile.starts)),
            "compute_slices": profile.compute_slices,
            "memory_mib": profile.memory_mib,
            "max_count": profile.max_count,
            "whole": profile.size == fact.memory_slices,
        }
        weight = default_weight(profile.compute_slices, profile.size)
        Profile.objects.update_or_create(
            gpu_model=fact.model,
            mig=fact.mig_enabled,
            name=profile.name,
            defaults=reported,
            create_defaults=reported | {"weight": weight},
        )


def _fits(profile: ProfileFact, fact: GpuFact) -> bool:
    return all(start + profile.size <= fact.memory_slices for start in profile.starts)
