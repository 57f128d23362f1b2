"""What a usage page adds up. Pure and additive, so that days, members and reservations give the same totals.

Weighted slice-seconds; what was measured and used is in slice-milliseconds. Of the running time some was measured,
and of that some used: ``running = used + idle + not measured``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

MS = 1000


@dataclass(frozen=True)
class Figures:
    """``reserved`` holds all that was agreed; ``committed`` is the part of it that still lies ahead."""

    reserved: int = 0
    committed: int = 0
    running: int = 0
    measured_ms: int = 0
    used_ms: int = 0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            self.reserved + other.reserved,
            self.committed + other.committed,
            self.running + other.running,
            self.measured_ms + other.measured_ms,
            self.used_ms + other.used_ms,
        )

    @property
    def measurable(self) -> bool:
        """False where something ran and nothing of it could be measured: what was used is unknown then, not zero."""
        return self.running <= 0 or self.measured_ms > 0

    @property
    def used(self) -> int | None:
        return round(self.used_ms / MS) if self.measurable else None

    @property
    def idle_ms(self) -> int:
        """Measured and not used."""
        return self.measured_ms - self.used_ms

    @property
    def idle(self) -> int | None:
        return round(self.idle_ms / MS) if self.measurable else None

    @property
    def unmeasured_ms(self) -> int:
        """Ran, and its use could not be measured."""
        return max(0, self.running * MS - self.measured_ms)

    @property
    def unmeasured(self) -> int:
        return round(self.unmeasured_ms / MS)

    @property
    def not_running(self) -> int:
        """Reserved for a time that has passed, and nothing ran."""
        return max(0, self.reserved - self.committed - self.running)

    @property
    def used_share(self) -> int | None:
        """Percent of the measured running time; None where nothing was measured."""
        return round(100 * self.used_ms / self.measured_ms) if self.measured_ms else None


def total(parts: Iterable[Figures]) -> Figures:
    return sum(parts, Figures())


def measured(running_seconds: int, measured_seconds: int, busy_ms: int, weight: int) -> Figures:
    """One lease on one day. Samples beyond what the ledger counts are cut, so that the parts fit the whole."""
    measured_ms = weight * MS * max(0, min(measured_seconds, running_seconds))
    return Figures(
        running=weight * running_seconds, measured_ms=measured_ms, used_ms=min(weight * busy_ms, measured_ms)
    )
