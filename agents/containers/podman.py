"""Workloads in Podman containers, each with exactly one device through CDI, read back from what runc was given.

A client that is newer than the service may have its device request dropped in silence, so a container without its
device is removed, never used. Everything is found again by label; what lacks our label is not touched.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.containers.cdi import CdiSpec
from agents.containers.contract import EngineError, HostUse, Running, WorkloadRefused
from agents.containers.hostuse import HostMeter
from agents.containers.podman_api import PodmanApi
from agents.containers.podman_log import FollowedLog
from agents.containers.podman_spec import ATTEMPT, DEVICE, LEASE, NODE, Hardening, container_name, container_spec
from agents.containers.processes import children_by_parent, descendants
from agents.protocol import DesiredLease

log = logging.getLogger(__name__)

_PULL_SECONDS = 600.0
_LIVE_STATES = ("running", "paused", "stopping")


class PodmanEngine:
    """See :class:`agents.containers.contract.Engine`. ``node`` keeps several agents on one Podman apart."""

    name = "podman"

    def __init__(
        self, url: str, node: str, spec: CdiSpec, hardening: Hardening | None = None, pull: bool = False,
        interface: Callable[[], str] = str,
    ) -> None:
        """``interface`` tells over which one the ranks of a group talk."""
        self._interface = interface
        self._api = PodmanApi(url)
        self._node = node
        self._spec = spec
        self._hardening = hardening or Hardening()
        self._pull = pull
        self._meter = HostMeter()
        self._logs: dict[str, FollowedLog] = {}

    def running(self) -> tuple[Running, ...]:
        filters = json.dumps({"label": [f"{NODE}={self._node}"]})
        found = self._api.get("/containers/json", all="true", filters=filters)
        children = children_by_parent() if found else {}
        return tuple(_running(each, children) for each in found)

    def start(self, lease: DesiredLease, device: str) -> Running:
        present = self._own(lease)
        if present is not None and present.alive:
            return present
        if present is not None:
            self.remove(present)
        body = container_spec(lease, device, self._node, self._hardening, self._interface())
        if self._pull:
            self._fetch(lease.workload.image)
        self._create(lease, body)
        try:
            self._api.post(f"/containers/{body['name']}/start")
        except EngineError as refusal:
            self._drop(body["name"])
            raise _judged(refusal, lease) from refusal
        started = self._own(lease)
        if started is None:
            raise EngineError("The container was started but cannot be found again.")
        return started

    def device_of(self, running: Running) -> str | None:
        """The labelled device, if the container was given its nodes and no other, as runc's own file says."""
        facts = self._api.get(f"/containers/{running.name}/json")
        device = facts["Config"]["Labels"].get(DEVICE, "")
        given = _runtime_config(facts.get("OCIConfigPath", ""))
        nodes = frozenset(node["path"] for node in given.get("linux", {}).get("devices", ()) or ())
        seen = {value.partition("=")[2] for value in given.get("process", {}).get("env", ())
                if value.startswith("CUDA_VISIBLE_DEVICES=")}
        if not nodes or nodes != self._spec.nodes_of(*device.split(",")) or seen != {device}:
            log.warning("container %s got %s and sees %s", running.name, sorted(nodes), sorted(seen))
            return None
        return device

    def stop(self, running: Running, grace_seconds: float) -> None:
        """TERM only: the agent's own clock brings the KILL, since Podman's stop would hold this call for the grace."""
        self._signal(running, "SIGTERM" if grace_seconds > 0 else "SIGKILL")

    def fence(self, running: Running, seconds_to_term: float, seconds_to_kill: float) -> None:
        """Podman's own time limit is fixed when a container is made and would end one whose window was extended."""

    def kill(self, running: Running) -> None:
        self._signal(running, "SIGKILL")

    def remove(self, running: Running) -> None:
        self._meter.forget(running.name)
        self._logs.pop(running.name, None)
        self._api.delete(f"/containers/{running.name}", v="true")

    def log(self, running: Running, offset: int, limit: int) -> tuple[int, bytes]:
        if running.name not in self._logs:
            facts = self._api.get(f"/containers/{running.name}/json")
            self._logs[running.name] = FollowedLog(Path(facts["HostConfig"]["LogConfig"]["Path"]))
        try:
            return self._logs[running.name].read(offset, limit)
        except OSError as error:
            raise EngineError(f"The output of {running.name} cannot be read: {error}") from error

    def host_use(self, running: Running) -> HostUse:
        return self._meter.measure(running.name, running.pids)

    def _own(self, lease: DesiredLease) -> Running | None:
        wanted = (lease.lease_id, lease.attempt)
        return next((each for each in self.running() if (each.lease_id, each.attempt) == wanted), None)

    def _create(self, lease: DesiredLease, body: dict[str, Any]) -> None:
        """A name that is taken by a container of ours was dealt with before; what holds it now is foreign or half
        made, and is told, not removed by force."""
        try:
            self._api.post("/containers/create", body)
        except EngineError as refusal:
            raise _judged(refusal, lease) from refusal

    def _fetch(self, image: str) -> None:
        if not self._api.find(f"/images/{image}/exists"):
            self._api.post("/images/pull", seconds=_PULL_SECONDS, reference=image, quiet="true")

    def _signal(self, running: Running, name: str) -> None:
        try:
            self._api.post(f"/containers/{running.name}/kill", signal=name)
        except EngineError:
            again = next((each for each in self.running() if each.name == running.name), None)
            if again is not None and again.alive:
                raise

    def _drop(self, name: str) -> None:
        self._api.delete(f"/containers/{name}", force="true", v="true")


def _running(facts: dict[str, Any], children: dict[int, list[int]]) -> Running:
    labels = facts["Labels"]
    alive = facts["State"] in _LIVE_STATES
    pid = int(facts.get("Pid") or 0)
    pids = (pid, *descendants(pid, children)) if alive and pid else ()
    return Running(int(labels[LEASE]), int(labels[ATTEMPT]), facts["Names"][0], alive,
                   None if alive else int(facts.get("ExitCode", 0)), pids)


def _runtime_config(path: str) -> dict[str, Any]:
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return {}


def _judged(refusal: EngineError, lease: DesiredLease) -> EngineError:
    """Whether trying again can help: an image that is not there stays away. A command that is not in the image is no
    refusal but an exit: the container's init starts, and says so in the output."""
    text = str(refusal)
    if "no such image" in text.lower() or "image not known" in text.lower():
        return WorkloadRefused(f"The image {lease.workload.image} is not on this node. {text}")
    if "already in use" in text:
        return EngineError(f"The name {container_name(lease)} is taken by a container that is not ours. {text}")
    return EngineError(text)
