"""The simulated ``libnvidia-ml``: an object whose attributes stand where pynvml looks for C functions."""

import ctypes
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pynvml

from agents.drivers.simulator import symbols_compute, symbols_device, symbols_instance, symbols_links, symbols_watching
from agents.drivers.simulator.arguments import Refusal, number
from agents.drivers.simulator.models import GpuModel
from agents.drivers.simulator.session import Session

log = logging.getLogger(__name__)

SYMBOLS: dict[str, Callable[..., None]] = {
    **symbols_device.SYMBOLS,
    **symbols_instance.SYMBOLS,
    **symbols_compute.SYMBOLS,
    **symbols_links.SYMBOLS,
    **symbols_watching.SYMBOLS,
}
_WITHOUT_INIT = ("nvmlInitWithFlags", "nvmlInit_v2")
_WITHOUT_LOCK = ("nvmlEventSetWait_v2",)
_ERROR_TEXTS = {
    pynvml.NVML_ERROR_IN_USE: b"In use by another client",
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: b"Insufficient Resources",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: b"Argument version mismatch",
}


class _Function:
    """Callable, and takes the attributes that pynvml sets on a ctypes function."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.restype: Any = ctypes.c_int
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)


class SimulatedNvml:
    """One simulated node, read from its file. Put it under pynvml with :func:`install`."""

    def __init__(self, path: Path, models: dict[str, GpuModel] | None = None) -> None:
        self.session = Session(path, models)
        self._functions: dict[str, _Function] = {"nvmlErrorString": _Function(_error_string)}

    def __getattr__(self, name: str) -> _Function:
        if name not in self.__dict__.get("_functions", {}):
            if name not in SYMBOLS:
                raise AttributeError(f"undefined symbol: {name}")
            self._functions[name] = _Function(lambda *arguments: self._answer(name, arguments))
        return self._functions[name]

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        try:
            if self._meets_fault(name):
                return pynvml.NVML_SUCCESS
            if name in _WITHOUT_LOCK:
                SYMBOLS[name](self.session, *arguments)
            else:
                with self.session.lock:
                    SYMBOLS[name](self.session, *arguments)
        except Refusal as refusal:
            return refusal.code
        except (OSError, msgspec.MsgspecError) as error:
            # The node's file is the kernel driver: without it none is loaded.
            log.warning("the simulated node cannot be read: %s", error)
            return pynvml.NVML_ERROR_DRIVER_NOT_LOADED
        return pynvml.NVML_SUCCESS

    def _meets_fault(self, name: str) -> bool:
        """True when an injected fault answers SUCCESS in place of the symbol."""
        node = self.session.node
        if self.session.references <= 0 and name not in _WITHOUT_INIT:
            raise Refusal(pynvml.NVML_ERROR_UNINITIALIZED)
        if name in node.hidden_symbols:
            raise Refusal(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if name not in node.faults:
            return False
        with self.session.file.change() as changed:
            fault = changed.faults.get(name)
            if fault is None:
                return False
            fault.times -= 1
            if fault.times <= 0:
                del changed.faults[name]
        threading.Event().wait(fault.seconds)
        if fault.code:
            raise Refusal(fault.code)
        return fault.code is not None


def _error_string(code: Any) -> bytes:
    return _ERROR_TEXTS.get(number(code), b"Unknown Error")


def install(library: Any) -> None:
    """Make pynvml use this library in this process, in place of the one it would load."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml._nvmlLib_refcount = 0


def uninstall() -> None:
    """Make pynvml load the machine's own library at the next init."""
    install(None)
