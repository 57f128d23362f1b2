"""What a rule says: the tests it made, each with its series and numbers, and how sure that makes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from scheduler.advisor.limits import LIMITS

Param = str | int | float


def percent(value: float) -> int:
    return int(rounded(100 * value))


def rounded(value: float, digits: int = 0) -> float | int:
    """A number for a sentence. What is not known is -1, and never read: no test on it holds."""
    if not isfinite(value):
        return -1
    return round(value, digits) if digits else round(value)


@dataclass(frozen=True)
class Test:
    """One comparison. ``least``: the value must reach the limit; otherwise it must stay under it."""

    series: str
    value: float
    limit: float
    least: bool
    scale: float

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.least else self.value < self.limit

    @property
    def margin(self) -> float:
        """On the threshold little, from twice the distance 1."""
        low = LIMITS["confidence"]["at_threshold"]
        return low + (1 - low) * min(1.0, abs(self.value - self.limit) / self.scale)


def at_least(series: str, value: float, limit: float) -> Test:
    """Of a ratio near 1 twice the distance would lie beyond what can be: there half the way to 1 counts as far."""
    near_one = 0.5 < limit < 1
    return Test(series, value, limit, True, (1 - limit) / 2 if near_one else limit or 1.0)


def below(series: str, value: float, limit: float) -> Test:
    """Twice the distance of what must stay under a limit is half of it."""
    return Test(series, value, limit, False, limit / 2 or 1.0)


@dataclass(frozen=True)
class Seen:
    """A rule's answer for a stretch of time. ``spans``: seconds since the start, half-open. ``unsure``: what could tell
    it from another cause was not measured."""

    tests: tuple[Test, ...]
    params: Mapping[str, Param] = field(default_factory=dict)
    spans: tuple[tuple[int, int], ...] = ()
    rank: int | None = None
    rebook: str | None = None
    unsure: bool = False
    steps_first: tuple[str, ...] = ()
    ended: bool = False

    @property
    def seconds(self) -> int:
        return sum(end - start for start, end in self.spans)

    @property
    def margin(self) -> float:
        """The mean over its tests: a rule of many tests is not less sure for having more of them."""
        return sum(test.margin for test in self.tests) / len(self.tests) if self.tests else 1.0


def seen(tests: Sequence[Test], params: Mapping[str, Param] | None = None, **more: object) -> Seen | None:
    """None unless every test holds."""
    if not all(test.holds for test in tests):
        return None
    return Seen(tuple(tests), params or {}, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Evidence:
    """A series of the chart, the number taken from it and what that was held against."""

    series: str
    value: float
    relation: str
    limit: float


@dataclass(frozen=True)
class Finding:
    """``rule`` and ``params`` make the sentence, ``steps`` the keys of what to change, in order; the words are the
    portal's.

    ``spans``: when it held. ``current``: it still does at the end of the recording. ``share_lost``: of the lease's
    slice-seconds, None where activity is not measured.
    """

    rule: str
    confidence: float
    params: Mapping[str, Param]
    steps: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    spans: tuple[tuple[int, int], ...]
    current: bool
    rank: int | None = None
    rebook: str | None = None
    share_lost: float | None = None

    @property
    def grade(self) -> str:
        limit = LIMITS["confidence"]
        if self.confidence >= limit["high_least"]:
            return "high"
        return "likely" if self.confidence >= limit["likely_least"] else "possible"


@dataclass(frozen=True)
class Advice:
    """``findings``: at most three. ``notes``: facts beside them that are no faults. ``missing``: rule -> the metrics
    without which it could not judge."""

    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    missing: dict[str, tuple[str, ...]]
