"""What a benchmark prints: one line a figure on stdout, with its target and whether it is met."""

import operator
import sys
from dataclasses import dataclass, field

_COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Bound:
    """``<= 60`` and the like."""

    how: str
    limit: float

    def holds(self, value: float) -> bool:
        return bool(_COMPARE[self.how](value, self.limit))

    def __str__(self) -> str:
        return f"{self.how}{_plain(self.limit)}"


@dataclass(frozen=True)
class Figure:
    """``name`` is dotted and begins with the benchmark's own: ``web.reservation_list``."""

    name: str
    metric: str
    value: float
    target: Bound
    stretch: Bound | None = None

    @property
    def is_met(self) -> bool:
        return self.target.holds(self.value)

    def __str__(self) -> str:
        stretch = f" stretch{self.stretch}" if self.stretch else ""
        word = "OK" if self.is_met else "SHORT"
        return f"bench {self.name} {self.metric}={_plain(self.value)} target{self.target}{stretch} {word}"


@dataclass
class Board:
    """Takes figures and prints each at once; ``note`` tells what is context and has no target, on stderr."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, name: str, metric: str, value: float, target: str, stretch: str = "") -> None:
        """``target`` and ``stretch`` as they are printed: ``<=60``."""
        figure = Figure(name, metric, value, bound(target), bound(stretch) if stretch else None)
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


def _plain(value: float) -> str:
    """Three digits are enough of any measurement, and all digits of a count."""
    if float(value).is_integer():
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
