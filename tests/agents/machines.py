"""Two machines in network namespaces of their own, on one wire with this one: links can be cut."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

NET = "10.213.77"


@dataclass(frozen=True)
class Machine:
    """``namespace`` is where its processes live; ``wire`` is our end of its link."""

    namespace: str
    address: str
    wire: str

    def command(self, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def cut(self) -> None:
        _ip("link", "set", self.wire, "down")


def why_not() -> str:
    """Why this machine cannot do it, or ""."""
    if shutil.which("ip") is None:
        return "no ip command: install iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"berth-try-{os.getpid()}"
    for arguments in (["netns", "add", name], ["-n", name, "link", "add", "berth0", "type", "bridge"],
                      ["-n", name, "link", "add", "berth1", "type", "veth", "peer", "name", "berth2"]):
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            break
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return f"network namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else ""


@contextlib.contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """On a bridge that this machine is on as ``NET``.1; all of it is gone afterwards."""
    tag = f"b{os.getpid() % 100000}"
    machines = (Machine(f"{tag}-a", f"{NET}.2", f"{tag}a"), Machine(f"{tag}-b", f"{NET}.3", f"{tag}b"))
    try:
        _ip("link", "add", tag, "type", "bridge")
        _ip("addr", "add", f"{NET}.1/24", "dev", tag)
        _ip("link", "set", tag, "up")
        for machine in machines:
            _add(machine, tag)
        yield machines
    finally:
        for arguments in (*(["link", "del", machine.wire] for machine in machines), ["link", "del", tag],
                          *(["netns", "del", machine.namespace] for machine in machines)):
            subprocess.run(["ip", *arguments], check=False, capture_output=True)


def _add(machine: Machine, bridge: str) -> None:
    _ip("netns", "add", machine.namespace)
    _ip("link", "add", machine.wire, "type", "veth", "peer", "name", "train0", "netns", machine.namespace)
    _ip("link", "set", machine.wire, "master", bridge, "up")
    _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "train0")
    for interface in ("lo", "train0"):
        _ip("-n", machine.namespace, "link", "set", interface, "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
