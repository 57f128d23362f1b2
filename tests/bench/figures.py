"""What a benchmark prints: one line a figure on stdout, with its target and whether it is met."""

import operator
import re
import sys
from dataclasses import dataclass, field

_COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
_LINE = re.compile(
    r"bench (?P<name>\S+) (?P<metric>\w+)=(?P<value>\S+)(?: noise=(?P<noise>\S+))?"
    r" target(?P<target>\S+)(?: stretch(?P<stretch>\S+))? (?:OK|SHORT)"
)


@dataclass(frozen=True)
class Bound:
    """``<= 60`` and the like."""

    how: str
    limit: float

    def holds(self, value: float) -> bool:
        return bool(_COMPARE[self.how](value, self.limit))

    def missed_by(self, value: float) -> float:
        """How far the value lies on the wrong side; 0 where it holds."""
        return 0.0 if self.holds(value) else abs(value - self.limit)

    def __str__(self) -> str:
        return f"{self.how}{_plain(self.limit)}"


@dataclass(frozen=True)
class Figure:
    """``name`` is dotted and begins with the benchmark's own: ``web.reservation_list``. ``noise``: half the interval
    in which the value lies by chance alone; it is short only if all of the interval is."""

    name: str
    metric: str
    value: float
    target: Bound
    stretch: Bound | None = None
    noise: float = 0.0

    @property
    def is_met(self) -> bool:
        return self.target.holds(self.value) or self.target.missed_by(self.value) <= self.noise

    @property
    def shortfall(self) -> str:
        """By how much it is short, in its own unit and as a share of the target."""
        missed = self.target.missed_by(self.value)
        share = f" ({missed / abs(self.target.limit):.0%})" if self.target.limit else ""
        return f"{self.name} {self.metric}={_plain(self.value)}, target {self.target}: short by {_plain(missed)}{share}"

    def __str__(self) -> str:
        stretch = f" stretch{self.stretch}" if self.stretch else ""
        word = "OK" if self.is_met else "SHORT"
        noise = f" noise={_plain(self.noise)}" if self.noise else ""
        return f"bench {self.name} {self.metric}={_plain(self.value)}{noise} target{self.target}{stretch} {word}"


@dataclass
class Board:
    """Takes figures and prints each at once; ``note`` tells what is context and has no target, on stderr."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, name: str, metric: str, value: float, target: str, stretch: str = "", noise: float = 0.0) -> None:
        """``target`` and ``stretch`` as they are printed: ``<=60``."""
        figure = Figure(name, metric, value, bound(target), bound(stretch) if stretch else None, noise)
        self.figures.append(figure)
        sys.stdout.write(f"{figure}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    @property
    def is_short(self) -> bool:
        return not all(figure.is_met for figure in self.figures)


def bound(text: str) -> Bound:
    return Bound(text[:2], float(text[2:]))


def figure_in(line: str) -> Figure | None:
    """The figure that a benchmark printed, or None where the line is something else."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    stretch = bound(found["stretch"]) if found["stretch"] else None
    noise = float(found["noise"] or 0)
    return Figure(found["name"], found["metric"], float(found["value"]), bound(found["target"]), stretch, noise)


def _plain(value: float) -> str:
    """Three digits are enough of any measurement, and all digits of a count."""
    if float(value).is_integer():
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
