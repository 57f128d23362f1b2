"""What could be booked on the fleet now, and what is lost because its free slices lie apart."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, GpuState, NodeState, Profile
from portal.live.fleet import AHEAD, Planned
from portal.reservations.closures import closed_by
from portal.reservations.models import Lease
from portal.reservations.selectors import held_as, shape_of, view_of, window_of
from scheduler.placement.fragmentation import Fragmentation, Room, fragmentation
from scheduler.placement.geometry import GpuView, Held


@dataclass(frozen=True)
class PoolRoom:
    """One pool, on the GPUs that are shown."""

    name: str
    broken: Fragmentation

    @property
    def sizes(self) -> list[tuple[int, str]]:
        """What could start now and run for an hour: (count, profile), the largest first."""
        return [(room.bookable, room.shape.name) for room in self.broken.rooms if room.bookable]

    @property
    def lost(self) -> list[Room]:
        return [room for room in self.broken.rooms if room.lost]

    @property
    def worst(self) -> Room | None:
        """The largest profile of which more would fit if what is held lay closer."""
        return next(iter(self.lost), None)


def room_now(gpus: Sequence[Gpu], leases: Iterable[Lease], maintenance: Planned, now: dt.datetime) -> list[PoolRoom]:
    """For the next hour. One query."""
    held: dict[int, list[Held]] = defaultdict(list)
    for lease in leases:
        name = lease.reservation.profile.name
        held[lease.gpu_id].append(held_as(lease.span, lease.during, lease.state, name, now))
    for gpu in gpus:
        held[gpu.pk] += [closed_by(one, gpu) for one in maintenance.get(gpu.pk, ())]
    pools: dict[tuple[str, str, bool], list[GpuView]] = defaultdict(list)
    for gpu in gpus:
        if gpu.pool and _takes_leases(gpu):
            pools[gpu.pool.name, gpu.model, gpu.mig_enabled].append(view_of(gpu, held[gpu.pk]))
    profiles = Profile.objects.filter(gpu_model__in={model for _name, model, _mig in pools})
    ordered = sorted(profiles, key=lambda profile: (-profile.weight, -profile.size, profile.name))
    window = window_of(DateTimeTZRange(now, now + AHEAD))
    found = []
    for (name, model, mig), views in sorted(pools.items()):
        shapes = [shape_of(profile) for profile in ordered if (profile.gpu_model, profile.mig) == (model, mig)]
        found.append(PoolRoom(name, fragmentation(views, window, shapes)))
    return found


def _takes_leases(gpu: Gpu) -> bool:
    node = gpu.node
    ready = node.state == NodeState.READY and node.silent_since is None and node.enrolled_at is not None
    return ready and gpu.state == GpuState.OK
