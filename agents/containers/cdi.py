"""The CDI spec: the file from which an engine learns what it takes to hand a device over, by the device's UUID.

NVIDIA's refresh service follows the driver but not MIG changes, so the agent writes a spec of its own, under a vendor
of its own, and compares it with what is there before each start. A file that was deleted, cut short or is stale is made
again; what cannot be made is told in the generator's own words.
"""

import json
import logging
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agents.containers.contract import EngineError
from agents.diskfiles import write_atomically

log = logging.getLogger(__name__)

VENDOR = "berth.local"
CLASS = "gpu"
KIND = f"{VENDOR}/{CLASS}"
_GENERATE_SECONDS = 60

Spec = dict[str, Any]
Generator = Callable[[tuple[str, ...]], Spec]


class CdiSpec:
    """One file in ``folder``, named by ``node`` since agents may share a machine; the reconcile thread writes it."""

    def __init__(self, folder: Path, node: str, generate: Generator) -> None:
        self._path = folder / f"berth-{node}.json"
        self._generate = generate
        self._checked: frozenset[str] = frozenset()

    def ensure(self, devices: tuple[str, ...]) -> None:
        """After this the file on disk names every one of ``devices``; raises EngineError where it cannot be made.

        The first call of a run and each other set of devices writes anew, since an old file may name paths of a driver
        that is gone; any other call only looks.
        """
        wanted = frozenset(devices)
        if wanted == self._checked and wanted <= self._named():
            return
        self._checked = frozenset()
        spec = self._generate(devices)
        try:
            write_atomically(self._path, json.dumps(spec, indent=1).encode(), mode=0o644)
        except OSError as error:
            raise EngineError(f"The CDI spec {self._path} cannot be written: {error.strerror}.") from error
        missing = wanted - self._named()
        if missing:
            raise EngineError(f"The CDI spec lacks {', '.join(sorted(missing))} after it was generated.")
        self._checked = wanted

    def nodes_of(self, *devices: str) -> frozenset[str]:
        """The device nodes a container gets that asks for these devices; empty when the spec lacks one of them."""
        spec = self._read()
        entries = [entry for entry in spec.get("devices", ()) if entry.get("name") in devices]
        if {entry["name"] for entry in entries} != set(devices):
            return frozenset()
        return frozenset((*_nodes(spec), *(node for entry in entries for node in _nodes(entry))))

    def _named(self) -> frozenset[str]:
        return frozenset(entry.get("name", "") for entry in self._read().get("devices", ()))

    def _read(self) -> Spec:
        """The file's content; empty when it is missing, cut short or of another kind."""
        try:
            spec = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return spec if isinstance(spec, dict) and spec.get("kind") == KIND else {}


def simulated_spec(devices: tuple[str, ...]) -> Spec:
    """A stand-in for nodes without a GPU: each device is a node of its own that reads as zeros."""
    return {
        "cdiVersion": "0.5.0",
        "kind": KIND,
        "devices": [
            {
                "name": device,
                "containerEdits": {
                    "env": ["NVIDIA_VISIBLE_DEVICES=void"],
                    "deviceNodes": [{"path": f"/dev/berth/{device}", "type": "c", "major": 1, "minor": 5,
                                     "permissions": "rw"}],
                },
            }
            for device in devices
        ],
    }


def toolkit_spec(devices: tuple[str, ...], command: str = "nvidia-ctk") -> Spec:
    """What NVIDIA's toolkit says of this machine, each device by UUID. It finds the devices by itself; whether all of
    ``devices`` are among them is checked by the caller."""
    arguments = [command, "cdi", "generate", f"--vendor={VENDOR}", f"--class={CLASS}", "--device-name-strategy=uuid",
                 "--format=json"]
    try:
        done = subprocess.run(arguments, capture_output=True, timeout=_GENERATE_SECONDS, check=False)
    except FileNotFoundError as error:
        raise EngineError(f"{command} is not installed; install the NVIDIA Container Toolkit.") from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{command} did not answer within {_GENERATE_SECONDS} s.") from error
    if done.returncode != 0:
        raise EngineError(f"{command} failed ({done.returncode}): {_last_lines(done.stderr)}")
    try:
        spec = json.loads(done.stdout)
    except ValueError as error:
        raise EngineError(f"{command} wrote no JSON: {error}") from error
    log.info("the CDI spec was generated for %s devices; %s asked for", len(spec.get("devices", ())), len(devices))
    return spec


def _nodes(part: Spec) -> Iterable[str]:
    return (node["path"] for node in part.get("containerEdits", {}).get("deviceNodes", ()) or ())


def _last_lines(data: bytes) -> str:
    lines = data.decode(errors="replace").strip().splitlines()
    return " ".join(lines[-3:])[:800] or "it said nothing."
