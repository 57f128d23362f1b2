"""The container a lease gets: everything that hardens it is ours to set and nothing of it comes from the request."""

from dataclasses import dataclass
from typing import Any

from agents.containers.cdi import KIND
from agents.containers.environment import checked_command, lease_environment
from agents.groups.sharing import over_nodes
from agents.protocol import DesiredLease

LEASE = "berth.lease"
ATTEMPT = "berth.attempt"
NODE = "berth.node"
DEVICE = "berth.device"

LOG_BYTES = 20 * 1000 * 1000
_PIDS = 4096
_SHM_BYTES = 1 << 30
_CPU_PERIOD_MICROSECONDS = 100_000


@dataclass(frozen=True)
class Hardening:
    """What an operator may choose for all containers of a node."""

    user: str = "1000:1000"
    network: str = "none"
    group_network: str = "none"
    tmp_mib: int = 1024


def container_name(lease: DesiredLease) -> str:
    return f"berth-{lease.lease_id}-{lease.attempt}"


def container_spec(
    lease: DesiredLease, device: str, node: str, hardening: Hardening, interface: str = ""
) -> dict[str, Any]:
    """The body of Podman's create call. Memory and swap are one limit, so that nothing is swapped out. ``device`` may
    be several, with commas; ``interface`` is the one that ranks of a group talk over."""
    environment = {"LANG": "C.UTF-8", "HOME": "/tmp"} | lease_environment(lease, device, interface)
    return {
        "name": container_name(lease),
        "image": lease.workload.image,
        "command": checked_command(lease),
        "entrypoint": [],
        "env": environment,
        "env_host": False,
        "httpproxy": False,
        "labels": {LEASE: str(lease.lease_id), ATTEMPT: str(lease.attempt), NODE: node, DEVICE: device},
        "devices": [{"path": f"{KIND}={each}"} for each in device.split(",")],
        "user": hardening.user,
        "no_new_privileges": True,
        "cap_drop": ["ALL"],
        "privileged": False,
        "read_only_filesystem": True,
        "mounts": [_tmpfs("/tmp", hardening.tmp_mib)],
        "work_dir": "/tmp",
        "shm_size": _SHM_BYTES,
        "init": True,
        "restart_policy": "no",
        "stop_timeout": lease.workload.grace_seconds,
        "log_configuration": {"driver": "k8s-file", "size": LOG_BYTES},
        "resource_limits": _limits(lease),
        **_network(hardening.group_network if over_nodes(lease) else hardening.network),
    }


def _network(name: str) -> dict[str, Any]:
    if name in ("none", "host"):
        return {"netns": {"nsmode": name}}
    return {"netns": {"nsmode": "bridge"}, "Networks": {name: {}}}


def _limits(lease: DesiredLease) -> dict[str, Any]:
    limits: dict[str, Any] = {"pids": {"limit": _PIDS}}
    workload = lease.workload
    if workload.memory_mib is not None:
        most = workload.memory_mib << 20
        limits["memory"] = {"limit": most, "swap": most}
    if workload.cpus is not None:
        quota = max(1000, round(workload.cpus * _CPU_PERIOD_MICROSECONDS))
        limits["cpu"] = {"period": _CPU_PERIOD_MICROSECONDS, "quota": quota}
    return limits


def _tmpfs(path: str, size_mib: int) -> dict[str, Any]:
    return {"type": "tmpfs", "source": "tmpfs", "destination": path,
            "options": [f"size={size_mib}m", "nosuid", "nodev", "mode=1777"]}
