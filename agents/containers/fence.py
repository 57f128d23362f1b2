"""Until when a workload may run without an agent that ends it: on disk, in seconds of this machine since its boot."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from agents.clock import seconds_since_boot
from agents.diskfiles import write_atomically


@dataclass(frozen=True)
class Fence:
    """When its TERM is due, and when its KILL."""

    term_at: float
    kill_at: float


def write_fence(folder: Path, seconds_to_term: float, seconds_to_kill: float) -> None:
    now = seconds_since_boot()
    fence = Fence(now + seconds_to_term, now + seconds_to_kill)
    write_atomically(folder / "fence.json", json.dumps(asdict(fence)).encode())


def read_fence(folder: Path) -> Fence | None:
    """None where there is none, or none that can be read: then only the agent ends the workload."""
    try:
        facts = json.loads((folder / "fence.json").read_bytes())
        return Fence(float(facts["term_at"]), float(facts["kill_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
