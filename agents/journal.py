"""What the agent must not forget, in one file: the last desired document, how far each lease is, untold events.

The journal is written before the device or the engine is touched, so that an agent that dies in between finds at its
next start what it was about to make. A damaged file is set aside: the truth is then rebuilt from the driver, the
engine's labels and the portal's next desired document.
"""

import logging
import time
from pathlib import Path

import msgspec

from agents.diskfiles import write_atomically
from agents.protocol import Desired, DesiredLease, LeaseEvent
from agents.schedule import Phase

log = logging.getLogger(__name__)

_FORMAT = 1


class Progress(msgspec.Struct):
    """How far a lease is on this node.

    ``due_at`` is the next try of a start, or the time to kill once it is stopping. While it cannot be freed,
    ``hindrance`` says why, ``hindered_since`` since when and ``retry_at`` when it is tried again. ``reason``,
    ``exit_code``, ``detail`` and ``log_tail`` say why it ends.
    """

    lease: DesiredLease
    phase: Phase = Phase.STARTING
    device: str = ""
    reason: str = ""
    exit_code: int | None = None
    detail: str = ""
    log_tail: str = ""
    tries: int = 0
    first_try_at: float | None = None
    due_at: float = 0.0
    hindrance: str = ""
    hindered_since: float | None = None
    retry_at: float = 0.0


class State(msgspec.Struct):
    """The file's content. ``faults`` are GPUs that a fatal XID marked, until the next boot."""

    format: int = _FORMAT
    boot_id: str = ""
    clock_offset_seconds: float = 0.0
    desired: Desired | None = None
    progress: dict[int, Progress] = {}
    events: list[LeaseEvent] = []
    faults: dict[str, str] = {}


class Journal:
    """Owned by the reconcile thread; ``save`` returns once the state is on disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal.json"
        self.state = _load(self._path)

    def save(self) -> None:
        write_atomically(self._path, msgspec.json.encode(self.state))


def _load(path: Path) -> State:
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return _set_aside(path, str(error))
    if state.format != _FORMAT:
        return _set_aside(path, f"format {state.format} is not {_FORMAT}")
    return state


def _set_aside(path: Path, why: str) -> State:
    aside = path.with_name(f"{path.name}.damaged-{int(time.time())}")
    path.rename(aside)
    log.error("the journal is damaged (%s); it is set aside as %s and rebuilt from what is present", why, aside.name)
    return State()
