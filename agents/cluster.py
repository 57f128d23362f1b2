"""Where other nodes reach this one: the address and the interface that ranks of a group talk over."""

import fcntl
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_SIOCGIFADDR = 0x8915
_IPV6_OF_INTERFACES = Path("/proc/net/if_inet6")


@dataclass(frozen=True)
class Cluster:
    """``address`` and ``interface`` are "" where none is known. ``network`` says whether a workload has one at all."""

    address: str = ""
    interface: str = ""
    network: bool = True


def find_cluster(portal: str, address: str = "", interface: str = "", network: bool = True) -> Cluster:
    """What the operator set, and for the rest what the route to the portal goes over."""
    if not address and interface:
        address = _ipv4_of(interface)
    address = address or _address_towards(portal)
    return Cluster(address, interface or _interface_with(address), network)


def interface_exists(name: str) -> bool:
    return name in {known for _, known in socket.if_nameindex()}


def _address_towards(portal: str) -> str:
    """Our end of the route to the portal; nothing is sent for it."""
    url = urlsplit(portal)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return probe.getsockname()[0]
    except OSError:
        return ""


def _interface_with(address: str) -> str:
    try:
        facts = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM) if address else []
    except OSError:
        facts = []
    wanted = {fact[4][0] for fact in facts}
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if wanted & {_ipv4_of(name), *_ipv6_of(name)}), "")


def _ipv4_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:  # it has none, or is not there
            return ""
    return socket.inet_ntoa(answer[20:24])


def _ipv6_of(interface: str) -> set[str]:
    try:
        rows = [line.split() for line in _IPV6_OF_INTERFACES.read_text().splitlines()]
    except OSError:
        return set()
    return {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[-1] == interface}
