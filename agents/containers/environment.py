"""The environment a workload gets: what its owner asked for, minus whatever could reach another device."""

import logging
import re
from datetime import UTC, datetime

from agents.containers.contract import WorkloadRefused
from agents.groups.environment import group_environment
from agents.protocol import DesiredLease

log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DENIED = re.compile(r"(LD_|NVIDIA_|DOCKER_|BERTH_|CUDA_VISIBLE_DEVICES$|PATH$)", re.IGNORECASE)
_MAX_VALUE_BYTES = 8192


def lease_environment(lease: DesiredLease, device: str, interface: str = "") -> dict[str, str]:
    """What every engine sets. The device is named by its UUID and nothing the owner sets can widen it.

    ``BERTH_ENDS_AT`` announces the end of the window; TERM follows ``BERTH_GRACE_SECONDS`` before it. ``interface`` is
    the one that ranks of a group talk over.
    """
    environment = _of_owner(lease)
    environment.update({
        "CUDA_VISIBLE_DEVICES": device,
        "NVIDIA_VISIBLE_DEVICES": "void",
        "BERTH_LEASE": str(lease.lease_id),
        "BERTH_RESERVATION": str(lease.reservation_id),
        "BERTH_PROFILE": lease.profile,
        "BERTH_RANK": str(lease.rank),
        "BERTH_RANKS": str(lease.ranks),
        "BERTH_ENDS_AT": datetime.fromtimestamp(lease.ends_at, UTC).isoformat(),
        "BERTH_GRACE_SECONDS": str(lease.workload.grace_seconds),
    })
    if lease.group is not None:
        environment.update(group_environment(lease.group, interface))
    return environment


def checked_command(lease: DesiredLease) -> list[str]:
    """The argument list, or :class:`WorkloadRefused` where it is no command at all."""
    command = list(lease.workload.command)
    if not command or not command[0]:
        raise WorkloadRefused("The workload has no command; give it one as a list of arguments.")
    if command[0].startswith("-"):
        raise WorkloadRefused(f"The command may not begin with '-': {command[0]!r}.")
    if any("\0" in item for item in command):
        raise WorkloadRefused("The command holds a NUL character.")
    return command


def _of_owner(lease: DesiredLease) -> dict[str, str]:
    kept = {}
    for name, value in lease.workload.environment.items():
        if not _NAME.fullmatch(name):
            raise WorkloadRefused(f"{name[:64]!r} is no name of an environment variable.")
        if "\0" in value or len(value.encode()) > _MAX_VALUE_BYTES:
            raise WorkloadRefused(f"The value of {name} is too long or holds a NUL character.")
        if _DENIED.match(name):
            log.warning("lease %s: %s is not the owner's to set; left out", lease.lease_id, name)
            continue
        kept[name] = value
    return kept
