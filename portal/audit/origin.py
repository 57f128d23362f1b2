"""From where a change comes: said at the door of each way in, read where the change is recorded.

A context variable, so that requests, sockets and threads that run at once never see each other's.
"""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Via(TextChoices):
    PAGE = "page", _("page")
    API = "api", _("API")
    AGENT = "agent", _("agent")
    SWEEP = "sweep", _("sweep")
    COMMAND = "command", _("command")


@dataclass(frozen=True)
class Origin:
    """What no door has spoken for was started by hand on the portal's own machine."""

    via: Via = Via.COMMAND
    address: str = ""


_here: ContextVar[Origin] = ContextVar("audit_origin", default=Origin())  # noqa: B039  # it is frozen


def current_origin() -> Origin:
    return _here.get()


@contextmanager
def coming_from(via: Via, address: str = "") -> Iterator[None]:
    """Whatever is recorded within comes from there; ``address`` is the client's on the network."""
    before = _here.set(Origin(via, clean_address(address)))
    try:
        yield
    finally:
        _here.reset(before)


def clean_address(text: str) -> str:
    """One way to write each address; "" for what is none, such as the name of a Unix socket."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
