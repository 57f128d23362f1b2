"""What the agent asks of whatever runs a workload: Podman, Docker, or processes where there is no engine."""

from dataclasses import dataclass
from typing import Protocol

from agents.protocol import DesiredLease


class EngineError(Exception):
    """The engine refused or failed; the text is its own, fit for a person."""


class WorkloadRefused(EngineError):
    """The workload itself cannot run (no such command or image, a forbidden setting): trying again does not help."""


@dataclass(frozen=True)
class Running:
    """A workload that exists on this node and carries our label, running or not.

    ``ending``: its command has ended and what it left behind is being cleared; it counts as alive until that is done.
    """

    lease_id: int
    attempt: int
    name: str
    alive: bool
    exit_code: int | None = None
    pids: tuple[int, ...] = ()
    ending: bool = False


@dataclass(frozen=True)
class HostUse:
    """CPU in percent of one core, memory in MiB, over all processes of the workload."""

    cpu_percent: float | None = None
    memory_mib: int | None = None


class Engine(Protocol):
    """Finds everything again after an agent restart by label and disk, never by memory alone."""

    name: str

    def running(self) -> tuple[Running, ...]:
        """Every workload with our label for this node, ended ones too until they are removed."""

    def start(self, lease: DesiredLease, device: str) -> Running:
        """Start the workload on ``device`` (a MIG UUID, a GPU UUID, or the GPUs that a group has here with commas) and
        nothing else. Idempotent by lease and attempt: one that runs already is adopted. Raises when a device cannot be
        handed over, never starts without."""

    def device_of(self, running: Running) -> str | None:
        """The device read back from the started workload, not from the request."""

    def stop(self, running: Running, grace_seconds: float) -> None:
        """TERM now and KILL after the grace; returns at once. Call again to learn by ``running()`` whether it ended."""

    def fence(self, running: Running, seconds_to_term: float, seconds_to_kill: float) -> None:
        """Have the workload ended by then even if no agent lives to do it; told anew whenever its window changes. An
        engine that cannot do that does nothing: there only the agent ends it."""

    def kill(self, running: Running) -> None:
        """KILL now, everything the workload started; returns at once."""

    def remove(self, running: Running) -> None:
        """Remove what is left of an ended workload; its log file goes with it."""

    def log(self, running: Running, offset: int, limit: int) -> tuple[int, bytes]:
        """Where the bytes begin, and up to ``limit`` bytes of output from ``offset``. An offset whose bytes are gone
        answers from the oldest that are kept; a negative one means the last ``limit`` bytes."""

    def host_use(self, running: Running) -> HostUse:
        """None for what cannot be measured, as the CPU is at the first call: it is a difference of two."""
