"""From NVML's numbers to :class:`DriverError` with a sentence."""

import contextlib
from collections.abc import Iterator

import pynvml

from agents.drivers.contract import DriverError

UNKNOWN_TO_DRIVER = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)


@contextlib.contextmanager
def as_driver_error(doing: str) -> Iterator[None]:
    """Turns an NVMLError inside the block into a DriverError that begins with what was being done."""
    try:
        yield
    except pynvml.NVMLError as error:
        raise DriverError(f"{doing}: {error} (NVML {error.value})", error.value) from error
