"""What one person may see live, and what they are looking at."""

import hashlib
import re
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, cast

import msgspec
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from msgspec import Meta

from portal.inventory.models import Gpu, Node
from portal.reservations.models import Lease
from portal.tenants.selectors import tenants_of

KEYS_MOST = 500
MESSAGE_BYTES_MOST = 4096
_KEY = re.compile(r"([lgn])([1-9][0-9]{0,17})")
_Id = Annotated[int, Meta(ge=1, le=10**18)]


class BadWatch(ValueError):
    """What the browser sent is no list of keys."""


class Wanted(msgspec.Struct, frozen=True):
    """A browser's message: the keys on its page and the lease whose output it shows. It replaces the last one."""

    watch: Annotated[tuple[str, ...], Meta(max_length=KEYS_MOST)] = ()
    log: _Id | None = None

    def ids(self, kind: str) -> list[int]:
        return [int(key[1:]) for key in self.watch if key[0] == kind]


@dataclass(frozen=True)
class Sight:
    """The keys that may be seen, with the node that measures each. Two pages with the same keys share a frame."""

    leases: tuple[tuple[int, int], ...] = ()  # (lease, node)
    gpus: tuple[tuple[int, int], ...] = ()
    nodes: tuple[int, ...] = ()
    output: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def node_ids(self) -> set[int]:
        return {node_id for _, node_id in (*self.leases, *self.gpus)} | set(self.nodes)


@dataclass(frozen=True)
class Access:
    """Who a session belongs to, and the tenants they may see."""

    user_id: int
    tenants: frozenset[int]


def read_wanted(frame: str | bytes) -> Wanted:
    """Raises BadWatch for anything else than the message described in ``Wanted``."""
    if len(frame.encode() if isinstance(frame, str) else frame) > MESSAGE_BYTES_MOST:
        raise BadWatch(f"longer than {MESSAGE_BYTES_MOST} bytes")
    try:
        wanted = msgspec.json.decode(frame, type=Wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadWatch(str(error)) from error
    if not all(_KEY.fullmatch(key) for key in wanted.watch):
        raise BadWatch("a key is l, g or n and an id")
    return wanted


def session_mark(session_key: str) -> str:
    """Names a session in messages without giving it away."""
    return hashlib.sha256(session_key.encode()).hexdigest()


def access_of(session_key: str) -> Access | None:
    """What this session may see now; None when it has ended or expired, or its person is disabled."""
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast(HttpRequest, SimpleNamespace(session=session)))
    if not user.is_authenticated or not user.is_active:
        return None
    return Access(user.pk, frozenset(tenants_of(user).values_list("pk", flat=True)))


def sight_of(access: Access, wanted: Wanted) -> Sight:
    """What of this may be seen: leases of one's own tenants, GPUs and nodes by everyone. The rest is left out."""
    lease_ids = set(wanted.ids("l")) | ({wanted.log} if wanted.log else set())
    leases = _leases(access, lease_ids)
    return Sight(
        leases=tuple((lease_id, leases[lease_id]) for lease_id in sorted(set(wanted.ids("l"))) if lease_id in leases),
        gpus=_places(Gpu.objects.filter(pk__in=wanted.ids("g")).values_list("pk", "node_id"), wanted.ids("g")),
        nodes=tuple(sorted(Node.objects.filter(pk__in=wanted.ids("n")).values_list("pk", flat=True))),
        output=(wanted.log, leases[wanted.log]) if wanted.log in leases else None,
    )


def _leases(access: Access, lease_ids: set[int]) -> dict[int, int]:
    if not lease_ids:
        return {}
    seen = Lease.objects.filter(pk__in=lease_ids, reservation__tenant_id__in=access.tenants)
    return dict(seen.values_list("pk", "gpu__node_id"))


def _places(rows, asked: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(rows)) if asked else ()
