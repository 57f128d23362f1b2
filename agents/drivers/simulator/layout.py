"""Where a GPU instance may sit: legal, free, and which place a driver takes when it is asked for none."""

import uuid

from agents.drivers.simulator.models import ComputeProfile, GpuModel, InstanceProfile, Placement
from agents.drivers.simulator.node import Gpu, GpuInstance


def profile_of(model: GpuModel, instance: GpuInstance) -> InstanceProfile:
    profile = model.by_id(instance.profile_id)
    if profile is None:
        raise LookupError(f"{model.key} has no profile {instance.profile_id}")
    return profile


def free_spans(model: GpuModel, gpu: Gpu, profile: InstanceProfile) -> list[Placement]:
    """Legal places that are free now, with the count of the profile and the compute slices respected."""
    held = [profile_of(model, instance) for instance in gpu.instances]
    if sum(other.profile_id == profile.profile_id for other in held) >= profile.max_count:
        return []
    if sum(other.slices for other in held) + profile.slices > model.compute_slices:
        return []
    if _media_engines_taken(held, profile):
        return []
    taken = _taken(gpu)
    return [(start, size) for start, size in profile.spans if not taken & set(range(start, start + size))]


def _media_engines_taken(held: list[InstanceProfile], profile: InstanceProfile) -> bool:
    """The media extensions exist once on a GPU, whatever the size of the profile that has them."""
    return profile.name.endswith("+me") and any(other.name.endswith("+me") for other in held)


def _taken(gpu: Gpu) -> set[int]:
    return set().union(*(instance.span for instance in gpu.instances))


def default_span(model: GpuModel, gpu: Gpu, profile: InstanceProfile) -> Placement | None:
    """The free place that spoils the fewest other places, the lowest on ties; reproduces public driver traces."""
    taken = _taken(gpu)
    open_spans = [
        span
        for other in model.profiles
        for start, size in other.spans
        if not taken & (span := set(range(start, start + size)))
    ]
    free = free_spans(model, gpu, profile)
    if not free:
        return None

    def spoilt(place: Placement) -> int:
        start, size = place
        return sum(bool(span & set(range(start, start + size))) for span in open_spans)

    return min(free, key=lambda place: (spoilt(place), place))


def remaining(model: GpuModel, gpu: Gpu, profile: InstanceProfile) -> int:
    """How many more of the profile fit, taken one after the other from the lowest place."""
    trial = Gpu(index=gpu.index, uuid=gpu.uuid, model=gpu.model, pci_bus_id="", instances=list(gpu.instances))
    count = 0
    while free := free_spans(model, trial, profile):
        start, size = free[0]
        trial.instances.append(GpuInstance(id=-1, profile_id=profile.profile_id, start=start, size=size, serial=-1))
        count += 1
    return count


def instance_id(model: GpuModel, gpu: Gpu, start: int, size: int) -> int:
    """The node of a buddy tree: 0 the whole, 1-2 halves, 3-6 quarters, 7-14 eighths; halves swapped on some boards."""
    parts = model.memory_slices // size
    place = start // size
    if gpu.swapped and parts > 1:
        place ^= parts // 2
    return parts - 1 + place


def free_compute_start(instance: GpuInstance, parent: InstanceProfile, profile: ComputeProfile) -> int | None:
    """The first compute slice inside the GPU instance where the profile fits."""
    taken: set[int] = set()
    for other in instance.compute:
        slices = next(known.slices for known in parent.compute if known.profile_id == other.profile_id)
        taken |= set(range(other.start, other.start + slices))
    free = (start for start, _ in profile.spans if not taken & set(range(start, start + profile.slices)))
    return next(free, None)


def mig_uuid(gpu: Gpu, instance: GpuInstance, compute_start: int) -> str:
    """As on the device: the same GPU, instance id and engine give the same UUID, also after a reboot."""
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{gpu.uuid}/{instance.id}/{instance.start + compute_start}')}"
