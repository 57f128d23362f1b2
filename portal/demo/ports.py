"""Which port of the loopback the web takes. Imports no Django."""

import socket

FIRST_PORT = 8000
LAST_PORT = 8099  # below 32768, where the kernel's own short-lived ports begin


class PortBusy(RuntimeError):
    """The port that was asked for is taken or none; the text says so."""


def wanted_port(text: str) -> int | None:
    """A port that was asked for by name; None without a wish."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= 65535:
        raise PortBusy(f"PORT is a number from 1 to 65535, not {text[:40]!r}.")
    return int(text)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_port(wanted: int | None) -> int:
    """``wanted`` or nothing; without a wish the first free one from 8000 on."""
    if wanted is not None:
        if is_free(wanted):
            return wanted
        raise PortBusy(f"Port {wanted} is taken. Stop what uses it, or name another: PORT=8080 make demo")
    for port in range(FIRST_PORT, LAST_PORT + 1):
        if is_free(port):
            return port
    raise PortBusy(f"Every port from {FIRST_PORT} to {LAST_PORT} is taken. Name another: PORT=9000 make demo")
