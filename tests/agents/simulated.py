"""A simulated node for a test: its file, the real pynvml over it, the driver, and processes that hold devices."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pynvml

from agents.drivers.nvml import NvmlDriver
from agents.drivers.simulator import NodeFile, SimulatedNvml, create_node, install, uninstall
from agents.drivers.simulator.models import GpuModel

Value = TypeVar("Value")
BUSY = "while True: pass"
IDLE = "import threading; threading.Event().wait()"


@contextlib.contextmanager
def raw_node(folder: Path, *gpus: str, models: dict[str, GpuModel] | None = None) -> Iterator[NodeFile]:
    """pynvml initialised over a node; each GPU as ``MODEL`` or ``MODEL:mig``."""
    file = write_node_file(folder, *gpus)
    install(SimulatedNvml(file.path, models))
    try:
        pynvml.nvmlInit()
        yield file
    finally:
        uninstall()


@contextlib.contextmanager
def driven_node(folder: Path, *gpus: str, models: dict[str, GpuModel] | None = None):
    """(driver, file) of a node."""
    file = write_node_file(folder, *gpus)
    driver = NvmlDriver(lambda: install(SimulatedNvml(file.path, models)))
    try:
        yield driver, file
        driver.close()
    finally:
        uninstall()


def write_node_file(folder: Path, *gpus: str) -> NodeFile:
    wanted = [{"model": text.partition(":")[0], "mig": text.endswith(":mig")} for text in gpus]
    path = folder / "node.json"
    create_node(path, "node", wanted)
    return NodeFile(path)


@contextlib.contextmanager
def holding(device_uuid: str, program: str = IDLE, variable: str = "CUDA_VISIBLE_DEVICES") -> Iterator[int]:
    """A real process that was given the device; gives its id."""
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, variable: device_uuid})
    wanted = f"{variable}={device_uuid}".encode()
    try:
        # A program that has only just begun has no environment to read yet.
        eventually(lambda: Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"), lambda has: wanted in has)
        yield process.pid
    finally:
        process.kill()
        process.wait(timeout=10)


def eventually(read: Callable[[], Value], wanted: Callable[[Value], bool], seconds: float = 30) -> Value:
    """What ``read`` gives as soon as it is as wanted; fails with the last value at the deadline."""
    deadline = time.monotonic() + seconds
    while not wanted(value := read()):
        assert time.monotonic() < deadline, f"still {value!r}"
        time.sleep(0.05)
    return value
