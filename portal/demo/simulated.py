"""The machines of the demo: names, pools and devices. Imports no Django."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SimulatedNode:
    """``gpus`` are pairs of a model that the simulator knows and whether MIG is on; ``pool`` takes what fits it."""

    name: str
    pool: str
    gpus: tuple[tuple[str, bool], ...]


NODES = (
    SimulatedNode("quay-01", "H100 MIG", (("H100-80GB", True), ("H100-80GB", True))),
    SimulatedNode("quay-02", "A100 MIG", (("A100-80GB", True), ("A100-80GB", True))),
    SimulatedNode("quay-03", "H100 whole", (("H100-80GB", False), ("L40S", False))),
)
POOLS = ("H100 MIG", "A100 MIG", "H100 whole", "L40S")
