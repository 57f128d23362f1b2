"""Joining a portal: a one-time token for a credential of this node's own, kept in a file only we can read."""

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import msgspec

from agents.diskfiles import write_atomically
from agents.enrol_format import Enrol, Enrolled

_TIMEOUT_SECONDS = 30
_MOST_BYTES = 1 << 16


class EnrolmentFailed(Exception):
    """Why the node could not join, and what to do."""


class Identity(msgspec.Struct, frozen=True):
    """Who this node is to its portal. The credential is a secret."""

    portal: str
    node_id: int
    node_name: str
    credential: str

    def socket_url(self) -> str:
        return "ws" + self.portal.removeprefix("http") + "/agent/v1/socket"


def enrol(portal: str, token: str, state: Path, name: str | None) -> Identity:
    """Spend the token and store the identity. Refuses to replace an identity: that would orphan its leases."""
    path = state / "identity.json"
    if path.exists():
        raise EnrolmentFailed(f"This node has joined already. To join anew, stop the agent and remove {path}.")
    body = msgspec.json.encode(Enrol(token=token, hostname=(name or socket.gethostname())[:128]))
    answer = _post(f"{portal}/agent/v1/enrol", body)
    try:
        enrolled = msgspec.json.decode(answer, type=Enrolled)
    except msgspec.MsgspecError as error:
        raise EnrolmentFailed(f"{portal} answered something else than a portal would. Check the address.") from error
    identity = Identity(portal, enrolled.node_id, enrolled.node_name, enrolled.credential)
    write_atomically(path, msgspec.json.encode(identity))
    return identity


def read_identity(state: Path, portal: str = "") -> Identity:
    """Who this node is; ``portal`` is where its portal has moved since, "" where it has not."""
    path = state / "identity.json"
    try:
        identity = msgspec.json.decode(path.read_bytes(), type=Identity)
        return msgspec.structs.replace(identity, portal=portal or identity.portal)
    except FileNotFoundError as error:
        raise EnrolmentFailed(
            f"This node has not joined a portal. Run: python -m agents enrol --portal URL --token T --state {state}"
        ) from error
    except (OSError, msgspec.MsgspecError) as error:
        raise EnrolmentFailed(f"{path} cannot be read ({error}). Restore it or enrol anew.") from error


def _post(url: str, body: bytes) -> bytes:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            return response.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        detail = _detail(error.read(_MOST_BYTES))
        raise EnrolmentFailed(
            f"The portal refused ({error.code}): {detail} Get a new token from the node's page in the portal."
        ) from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise EnrolmentFailed(f"{url} cannot be reached: {reason}. Check the address and the network.") from error


def _detail(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        return "it gave no reason."
    found = answer.get("detail") if isinstance(answer, dict) else None
    return str(found)[:500] if found else "it gave no reason."
