"""What torchrun, NCCL and Gloo read to find each other."""

from agents.group_format import Group


def group_environment(group: Group, interface: str) -> dict[str, str]:
    """One workload a node has all GPUs of the group there, so that NVLink and shared memory serve between them; it
    starts a process for each, as ``torchrun`` without arguments does by the PET_ names. Where the node has one GPU of
    the group, that process is the workload itself, and its ranks are said."""
    address = group.master.address
    if len(group.nodes) == 1:  # nothing leaves the machine, nor a container that has no network
        address, interface = "127.0.0.1", "lo"
    ranks_before = sum(node.gpus for node in group.nodes[:group.node_rank])
    local = str(group.own.gpus)
    environment = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(group.master_port),
        "WORLD_SIZE": str(group.world_size),
        "NODE_RANK": str(group.node_rank),
        "LOCAL_WORLD_SIZE": local,
        "NPROC_PER_NODE": local,
        "PET_NNODES": str(len(group.nodes)),
        "PET_NPROC_PER_NODE": local,
        "PET_NODE_RANK": str(group.node_rank),
        "PET_MASTER_ADDR": group.master.address,
        "PET_MASTER_PORT": str(group.master_port),
        "BERTH_FIRST_RANK": str(ranks_before),
        "BERTH_RESTARTS": str(group.epoch),
    }
    if interface:
        environment |= {"NCCL_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}
    if group.own.gpus == 1:
        environment |= {"RANK": str(ranks_before), "LOCAL_RANK": "0"}
    return environment
