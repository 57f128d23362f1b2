"""The part of the wire format that tells the ranks of a group of each other; :mod:`agents.protocol` hands it on."""

from typing import Annotated

import msgspec
from msgspec import Meta

Address = Annotated[str, Meta(max_length=255)]
Interface = Annotated[str, Meta(max_length=15)]
Port = Annotated[int, Meta(ge=1, le=65535)]


class GroupNode(msgspec.Struct, frozen=True):
    """A machine of a group and how many whole GPUs the group has there. ``address`` is as its agent told it, "" where
    none is known; ``driver_version`` likewise."""

    name: Annotated[str, Meta(max_length=128)]
    address: Address
    driver_version: Annotated[str, Meta(max_length=128)]
    gpus: Annotated[int, Meta(ge=1, le=64)]


class GroupLease(msgspec.Struct, frozen=True):
    """A lease of the group on the node that is spoken to."""

    lease_id: int
    gpu_uuid: Annotated[str, Meta(min_length=1, max_length=128)]


class Group(msgspec.Struct, frozen=True):
    """Whole GPUs over nodes that run as one. ``nodes`` are in the order of their node ranks, ``here`` in that of the
    leases' ranks: one workload has them all, and belongs to the first.

    ``master_port`` is the workload's own, ``watch_port`` that of the agents who watch it; both are on the first node.
    ``secret``, another for each run, tells agents of this group from strangers. ``epoch`` counts restarts so far.
    """

    nodes: Annotated[tuple[GroupNode, ...], Meta(min_length=1, max_length=1024)]
    node_rank: Annotated[int, Meta(ge=0, le=1023)]
    here: Annotated[tuple[GroupLease, ...], Meta(min_length=1, max_length=64)]
    master_port: Port
    watch_port: Port
    secret: Annotated[str, Meta(min_length=16, max_length=128)]
    epoch: Annotated[int, Meta(ge=0, le=1 << 20)] = 0

    @property
    def master(self) -> GroupNode:
        return self.nodes[0]

    @property
    def own(self) -> GroupNode:
        return self.nodes[self.node_rank]

    @property
    def first_lease_id(self) -> int:
        """The lease that the workload on this node belongs to."""
        return self.here[0].lease_id

    @property
    def world_size(self) -> int:
        return sum(node.gpus for node in self.nodes)
