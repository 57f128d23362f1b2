"""Every pynvml name that the agent uses exists in the pinned nvidia-ml-py and in the simulated library."""

import ast
import inspect
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pynvml
import pytest

from agents.drivers.simulator.library import SYMBOLS
from tests.agents.simulated import raw_node

AGENTS = Path(__file__).resolve().parents[2] / "agents"


def names_used() -> set[str]:
    trees = [ast.parse(path.read_text()) for path in AGENTS.rglob("*.py")]
    return {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pynvml"
    }


@cache
def wrapper_bodies() -> dict[str, str]:
    source = inspect.getsource(pynvml)
    lines = source.splitlines()
    return {
        node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


def symbols_of(wrapper: str) -> set[str]:
    """The C symbols that a wrapper may ask for, itself or through another wrapper."""
    body = wrapper_bodies()[wrapper]
    asked = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', body))
    called = {name for name in re.findall(r"\b(nvml[A-Z]\w+)\(", body) if name in wrapper_bodies() and name != wrapper}
    return asked.union(*(symbols_of(name) for name in called))


def wrappers_used() -> list[str]:
    return sorted(name for name in names_used() if name.startswith("nvml") and callable(getattr(pynvml, name, None)))


def test_the_agent_uses_pynvml():
    assert {"nvmlInit", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpmMigSampleGet"} <= set(wrappers_used())
    assert set(wrappers_used()) <= wrapper_bodies().keys()


def test_every_name_exists_in_the_pinned_nvidia_ml_py():
    pinned = re.search(r"nvidia-ml-py==(\S+)", (AGENTS / "requirements.txt").read_text())
    assert pinned and version("nvidia-ml-py") == pinned[1]
    assert not {name for name in names_used() if not hasattr(pynvml, name)}


@pytest.mark.parametrize("wrapper", wrappers_used())
def test_every_function_is_in_the_simulated_library(tmp_path, wrapper):
    symbols = symbols_of(wrapper)
    assert symbols
    assert not symbols - SYMBOLS.keys()
    with raw_node(tmp_path, "L40S"):
        for symbol in symbols:
            pynvml._nvmlGetFunctionPointer(symbol)


def test_a_symbol_that_an_old_driver_lacks_is_not_found(tmp_path):
    with raw_node(tmp_path, "A100-40GB:mig") as file:
        with file.change() as node:
            node.hidden_symbols = ["nvmlDeviceGetGpuInstanceProfileInfoV"]
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0)
        assert pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, version=1).id == 19
