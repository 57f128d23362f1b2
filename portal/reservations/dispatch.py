"""What a node shall do: its desired document, built from rows at the moment it is sent."""

from agents.group_format import Group
from agents.protocol import Desired, DesiredLease, WorkloadSpec
from portal.inventory.models import Node, NodeState
from portal.reservations.group_facts import Groups
from portal.reservations.models import Lease, LeaseState

HANDED_OUT = [LeaseState.PLANNED, LeaseState.STARTING, LeaseState.ACTIVE]


def desired_document(node_id: int) -> Desired:
    """The node's frozen and running leases with their windows, at its generation. A retired node gets none.

    The generation is read before the leases: a change in between makes the document newer than it says, never older,
    and brings another push.
    """
    node = Node.objects.get(pk=node_id)
    leases = list(
        Lease.objects.filter(gpu__node=node, frozen_at__isnull=False, state__in=HANDED_OUT)
        .select_related("gpu", "reservation__workload", "reservation__profile")
        .order_by("pk")
    )
    if node.state == NodeState.RETIRED:
        return Desired(generation=node.generation, leases=())
    groups = Groups(leases)
    handed = (lease for lease in leases if lease.state != LeaseState.PLANNED or groups.may_start(lease))
    desired = tuple(_desired_lease(lease, groups.of(lease)) for lease in handed)
    return Desired(generation=node.generation, leases=desired)


def _desired_lease(lease: Lease, group: Group | None) -> DesiredLease:
    reservation, workload = lease.reservation, lease.reservation.workload
    return DesiredLease(
        lease_id=lease.pk,
        reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id,
        rank=lease.rank,
        ranks=reservation.ranks,
        gpu_uuid=lease.gpu.uuid,
        profile=reservation.profile.name,
        profile_id=reservation.profile.nvml_profile_id,
        start=lease.span.lower,
        size=lease.span.upper - lease.span.lower,
        starts_at=lease.during.lower.timestamp(),
        ends_at=lease.during.upper.timestamp(),
        workload=WorkloadSpec(
            image=workload.image,
            command=tuple(workload.command),
            environment=workload.environment,
            grace_seconds=workload.grace_seconds,
        ),
        attempt=lease.attempt,
        group=group,
    )
