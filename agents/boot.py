"""Which boot this is. It changes when everything prepared on the devices is gone."""

from collections.abc import Callable
from pathlib import Path

from agents.drivers.simulator import NodeFile

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id_source(simulate: Path | None) -> Callable[[], str]:
    """The kernel's boot id, or that of the simulated node."""
    if simulate is None:
        return lambda: _BOOT_ID.read_text().strip()
    node = NodeFile(simulate)
    return lambda: node.read().boot_id
