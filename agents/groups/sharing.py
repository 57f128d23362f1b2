"""The leases of a group on one node share a workload: it belongs to the first of them and has the GPUs of all."""

from agents.protocol import DesiredLease


def workload_key(lease: DesiredLease) -> tuple[int, int]:
    """Lease and attempt of the workload that serves this lease."""
    return (lease.group.first_lease_id if lease.group else lease.lease_id, lease.attempt)


def has_own_workload(lease: DesiredLease) -> bool:
    return lease.group is None or lease.group.first_lease_id == lease.lease_id


def over_nodes(lease: DesiredLease) -> bool:
    return lease.group is not None and len(lease.group.nodes) > 1


def devices_for(lease: DesiredLease, device: str) -> str:
    """What the workload gets to see: the lease's own device, or those of all leases that share it, with commas."""
    if lease.group is None:
        return device
    return ",".join(each.gpu_uuid for each in lease.group.here)
