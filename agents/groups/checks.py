"""What is looked at on this machine before a group's clock starts."""

import asyncio
import socket

from agents.cluster import Cluster, interface_exists
from agents.group_format import Group
from agents.group_reasons import DRIVER_DIFFERS, NO_ADDRESS, NO_INTERFACE, NO_NETWORK, UNRESOLVED
from agents.groups.trouble import Trouble


async def trouble_here(group: Group, cluster: Cluster) -> Trouble | None:
    """The first thing that would keep the ranks from finding each other, or None."""
    if len(group.nodes) == 1:
        return None
    if not cluster.network:
        return Trouble(NO_NETWORK, group.own.name)
    if not cluster.interface or not interface_exists(cluster.interface):
        return Trouble(NO_INTERFACE, f"{group.own.name}: {cluster.interface or cluster.address or '-'}")
    return _driver_trouble(group) or await _address_trouble(group)


def _driver_trouble(group: Group) -> Trouble | None:
    """One major version everywhere: the libraries of another do not load or do not understand each other."""
    majors = {node.driver_version.partition(".")[0]: node for node in group.nodes if node.driver_version}
    if len(majors) < 2:
        return None
    return Trouble(DRIVER_DIFFERS, ", ".join(f"{node.name} {node.driver_version}" for node in majors.values()))


async def _address_trouble(group: Group) -> Trouble | None:
    loop = asyncio.get_running_loop()
    for node in group.nodes:
        if not node.address:
            return Trouble(NO_ADDRESS, node.name)
        try:
            await loop.getaddrinfo(node.address, None, type=socket.SOCK_STREAM)
        except OSError:
            return Trouble(UNRESOLVED, f"{node.name}: {node.address}")
    return None
