"""What pynvml hands to a C function, read and written from Python: scalars, references, arrays, buffers, handles."""

import ctypes
from typing import Any

import pynvml


class Refusal(Exception):
    """A symbol answers with this NVML code."""

    code = pynvml.NVML_ERROR_UNKNOWN

    def __init__(self, code: int | None = None) -> None:
        super().__init__(code)
        if code is not None:
            self.code = code


class InvalidArgument(Refusal):
    code = pynvml.NVML_ERROR_INVALID_ARGUMENT


class NotSupported(Refusal):
    code = pynvml.NVML_ERROR_NOT_SUPPORTED


class NotFound(Refusal):
    code = pynvml.NVML_ERROR_NOT_FOUND


class NoRoom(Refusal):
    code = pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES


class InUse(Refusal):
    code = pynvml.NVML_ERROR_IN_USE


def number(argument: Any) -> int:
    """An int from an int or a ctypes scalar."""
    return argument if isinstance(argument, int) else argument.value


def target(reference: Any) -> Any:
    """What ``byref(x)`` or ``pointer(x)`` points at; an array or structure is itself. A NULL is refused."""
    if reference is None:
        raise InvalidArgument
    if hasattr(reference, "_obj"):
        return reference._obj
    if isinstance(reference, ctypes._Pointer):
        return reference.contents
    return reference


def elements(reference: Any) -> Any:
    """An array to be written by index, from the array, a reference to it or a pointer to its first element."""
    if isinstance(reference, ctypes._Pointer):
        return reference
    aimed = target(reference)
    if isinstance(aimed, ctypes.Array):
        return aimed
    return ctypes.cast(ctypes.addressof(aimed), ctypes.POINTER(type(aimed)))


def text_of(argument: Any) -> str:
    raw = argument.value if hasattr(argument, "value") else argument
    return raw.decode()


def write_text(buffer: Any, length: Any, text: str) -> None:
    raw = text.encode()
    if len(raw) + 1 > number(length):
        raise Refusal(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    target(buffer).value = raw


def write_handle(reference: Any, address: int) -> None:
    ctypes.c_void_p.from_address(ctypes.addressof(target(reference))).value = address


def require_version(struct: Any, version: int) -> None:
    if struct.version != version:
        raise Refusal(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)


class Handles:
    """Opaque handles: addresses of real cells, kept alive and never followed. One address for each key."""

    def __init__(self) -> None:
        self._meanings: dict[int, Any] = {}
        self._addresses: dict[Any, int] = {}
        self._cells: dict[int, ctypes.c_uint64] = {}

    def address(self, key: Any) -> int:
        known = self._addresses.get(key)
        if known is not None:
            return known
        cell = ctypes.c_uint64(0)
        address = ctypes.addressof(cell)
        self._cells[address], self._meanings[address], self._addresses[key] = cell, key, address
        return address

    def meaning(self, handle: Any) -> Any:
        """The key behind a handle, or None."""
        if handle is None:
            return None
        return self._meanings.get(ctypes.cast(handle, ctypes.c_void_p).value or 0)

    def forget(self, key: Any) -> None:
        address = self._addresses.pop(key, None)
        if address is not None:
            del self._meanings[address], self._cells[address]
