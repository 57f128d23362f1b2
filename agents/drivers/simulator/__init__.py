"""A simulated NVML library under the real pynvml, so that the agent's code is the same on a laptop and on a DGX."""

from agents.drivers.simulator.library import SimulatedNvml, install, uninstall
from agents.drivers.simulator.node import NodeFile, create_node, reboot

__all__ = ["NodeFile", "SimulatedNvml", "create_node", "install", "reboot", "uninstall"]
