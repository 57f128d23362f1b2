"""What the agents of the year's machines would report. ``python -m portal.demo.year_machines`` asks the drivers.

A process of its own opens them, since pynvml holds one library in a process.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agents.drivers.opening import open_driver
from agents.drivers.simulator.node import create_node
from agents.protocol import GpuFact

ASKING_SECONDS = 120


@dataclass(frozen=True)
class Machines:
    """``nodes`` machines of ``gpus`` devices each, all in one pool."""

    pool: str
    model: str
    mig: bool
    nodes: int
    gpus: int

    @property
    def names(self) -> list[str]:
        prefix = self.pool.lower().replace(" ", "-")
        return [f"{prefix}-{number:02d}" for number in range(1, self.nodes + 1)]


FLEET = (
    Machines("H100 MIG", "H100-80GB", True, 3, 8),
    Machines("A100 MIG", "A100-80GB", True, 2, 8),
    Machines("A30 MIG", "A30", True, 2, 4),
    Machines("H200 whole", "H200-141GB", False, 2, 8),
    Machines("L40S", "L40S", False, 2, 4),
)

Told = dict[str, tuple[GpuFact, ...]]


def facts_of_the_fleet() -> Told:
    """Name of the node -> its GPUs and their profiles, in the words of the simulated drivers."""
    asked = subprocess.run(
        [sys.executable, "-m", "portal.demo.year_machines"],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, timeout=ASKING_SECONDS, check=True,
    )  # fmt: skip
    return msgspec.json.decode(asked.stdout, type=Told)


def _ask() -> Told:
    told: Told = {}
    with tempfile.TemporaryDirectory() as folder:
        for machines in FLEET:
            for name in machines.names:
                file = Path(folder) / f"{name}.json"
                create_node(file, name, [{"model": machines.model, "mig": machines.mig}] * machines.gpus)
                driver = open_driver(file)
                told[name] = driver.inventory()
                driver.close()
    return told


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_ask()))
