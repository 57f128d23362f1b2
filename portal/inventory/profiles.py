"""The shapes that GPUs can be cut into, as their agents report them; all nodes with one model share them."""

import logging
from collections.abc import Iterable

from agents.protocol import GpuFact, ProfileFact
from portal.inventory.models import Gpu, Node, Profile
from portal.inventory.weights import note_first_weights

log = logging.getLogger(__name__)

Key = tuple[str, bool, str]


def default_weight(compute_slices: int, memory_slices: int) -> int:
    """The compute slices or, where more, 7/8 of the memory slices rounded half down; at least 1."""
    return max(1, compute_slices, (7 * memory_slices + 3) // 8)


def record_profiles(node: Node, facts: Iterable[GpuFact]) -> None:
    """Take over what is new. What differs is taken over only while no other node has a GPU of that model and mode: a
    node has no word in how the GPUs of others are cut. A weight that an admin set is never touched."""
    reported = _reported(facts)
    models = {model for model, _mig, _name in reported}
    known = {(row.gpu_model, row.mig, row.name): row for row in Profile.objects.filter(gpu_model__in=models)}
    shared = set(Gpu.objects.filter(model__in=models).exclude(node=node).values_list("model", "mig_enabled"))
    added = []
    for key, shape in sorted(reported.items()):
        row = known.get(key)
        if row is None:
            added.append(_new(key, shape))
        elif any(getattr(row, name) != value for name, value in shape.items()):
            _change(node, row, shape, alone=key[:2] not in shared)
    if added:
        Profile.objects.bulk_create(added, ignore_conflicts=True)
        note_first_weights(models)


def _reported(facts: Iterable[GpuFact]) -> dict[Key, dict]:
    reported: dict[Key, dict] = {}
    for fact in facts:
        for profile in fact.profiles:
            if _fits(profile, fact):
                reported[fact.model, fact.mig_enabled, profile.name] = _shape(profile, fact)
            else:
                log.warning("GPU %s reports profile %s outside its canvas", fact.uuid, profile.name)
    return reported


def _shape(profile: ProfileFact, fact: GpuFact) -> dict:
    return {
        "nvml_profile_id": profile.profile_id,
        "size": profile.size,
        "starts": sorted(set(profile.starts)),
        "compute_slices": profile.compute_slices,
        "memory_mib": profile.memory_mib,
        "max_count": profile.max_count,
        "whole": profile.size == fact.memory_slices,
    }


def _fits(profile: ProfileFact, fact: GpuFact) -> bool:
    return all(start + profile.size <= fact.memory_slices for start in profile.starts)


def _new(key: Key, shape: dict) -> Profile:
    model, mig, name = key
    weight = default_weight(shape["compute_slices"], shape["size"])
    return Profile(gpu_model=model, mig=mig, name=name, weight=weight, **shape)


def _change(node: Node, row: Profile, shape: dict, alone: bool) -> None:
    if alone:
        Profile.objects.filter(pk=row.pk).update(**shape)
        return
    log.warning("node %s reports another %s of %s than is known: %s", node.pk, row.name, row.gpu_model, shape)
