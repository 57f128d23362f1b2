"""Opens the GPU driver of this machine, or of a simulated node."""

from pathlib import Path

from agents.drivers.contract import DriverError, GpuDriver
from agents.drivers.nvml import NvmlDriver
from agents.drivers.simulator import SimulatedNvml, install


def open_driver(simulate: Path | None = None) -> GpuDriver:
    """With ``simulate``, the node whose state is in that file; else the machine's own NVML. pynvml has one library in
    a process, so a process opens one of them. Raises DriverError; the caller tries again later."""
    if simulate is None:
        return NvmlDriver()
    path = Path(simulate)
    if not path.is_file():
        raise DriverError(f"There is no simulated node in {path}.")
    return NvmlDriver(lambda: install(SimulatedNvml(path)))
