"""The GPUs of a pool as placement replays on them, and as they might be: more or fewer nodes, or another model."""

from collections import Counter
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.inventory.models import Gpu, NodeState, Pool, Profile
from portal.reservations.selectors import shape_of
from scheduler.placement.policies import Fleet


class NoSuchFleet(ValueError):
    """What was asked for cannot be built from what agents reported; the message is for people."""


@dataclass(frozen=True)
class PoolFleet:
    """``profiles`` are those that its GPUs take."""

    fleet: Fleet
    model: str
    profiles: tuple[Profile, ...]

    @property
    def nodes(self) -> int:
        return len({node for _gpu, node, _index in self.fleet.gpus})

    def profile_for(self, wanted: Profile) -> Profile | None:
        """The same, or on another model the smallest that has as much memory and as many compute slices; whole GPUs
        stay whole. None if none is large enough."""
        same = next((one for one in self.profiles if one.pk == wanted.pk), None)
        enough = [
            one
            for one in self.profiles
            if one.memory_mib >= wanted.memory_mib
            and (one.whole or (not wanted.whole and one.compute_slices >= wanted.compute_slices))
        ]
        return same or min(enough, key=_smallest_first, default=None)

    def profile_for_share(self, share: float) -> Profile | None:
        """The smallest that has at least that share of a whole GPU's compute slices."""
        whole = max((one.compute_slices for one in self.profiles), default=0)
        enough = [one for one in self.profiles if one.compute_slices >= share * whole]
        return min(enough, key=_smallest_first, default=None)


def fleet_of(pool: Pool) -> PoolFleet:
    """All GPUs that are there, also those that are out of service today."""
    rows = Gpu.objects.filter(pool=pool, present=True).exclude(node__state=NodeState.RETIRED)
    gpus = tuple(rows.values_list("pk", "node_id", "index"))
    if not gpus or pool.mig is None:
        raise NoSuchFleet(_("Pool %(pool)s has no GPUs.") % {"pool": pool})
    return _fleet_on(gpus, pool.gpu_model, pool.mig)


def changed(here: PoolFleet, pool: Pool, nodes: int, model: str | None) -> PoolFleet:
    """With that many more nodes as large as the largest, or fewer, the last ones first; all of another model."""
    by_node = Counter(node for _gpu, node, _index in here.fleet.gpus)
    if len(by_node) + nodes < 1:
        raise NoSuchFleet(_("Pool %(pool)s has no more than %(count)s nodes.") % {"pool": pool, "count": len(by_node)})
    kept = sorted(by_node)[: len(by_node) + min(nodes, 0)]
    gpus = [gpu for gpu in here.fleet.gpus if gpu[1] in kept]
    gpu_id, node_id = max(gpu[0] for gpu in gpus), max(kept)
    for number in range(1, nodes + 1):
        for index in range(max(by_node.values())):
            gpu_id += 1
            gpus.append((gpu_id, node_id + number, index))
    return _fleet_on(tuple(gpus), model or here.model, pool.mig is not False)


def _fleet_on(gpus: tuple[tuple[int, int, int], ...], model: str, mig: bool) -> PoolFleet:
    known = Profile.objects.filter(gpu_model=model)
    profiles = tuple(known.filter(mig=mig)) or tuple(known)
    one = Gpu.objects.filter(model=model).first()
    if one is None or not profiles:
        models = ", ".join(sorted(set(Profile.objects.values_list("gpu_model", flat=True))))
        raise NoSuchFleet(
            _("No node has reported a %(model)s. Known: %(models)s.") % {"model": model, "models": models}
        )
    return PoolFleet(Fleet(gpus, tuple(map(shape_of, profiles)), one.memory_slices), model, profiles)


def _smallest_first(profile: Profile) -> tuple[int, int, int, str]:
    """Of equal ones that of which a GPU takes more: no media variant where a plain one will do."""
    return profile.size, profile.compute_slices, -profile.max_count, profile.name
