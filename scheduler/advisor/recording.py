"""What the advisor looks at: a lease as the portal knows it, and its metrics by the second. Null is NaN, never zero."""

from dataclasses import dataclass, field

import numpy as np

Series = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """A slice or a whole GPU, as the driver reports it."""

    name: str
    sms: int
    memory_mib: int
    memory_slices: int
    slices: int


@dataclass(frozen=True)
class PastBooking:
    """An earlier booking of the same person for the same workload. ``excused``: a crash, or credited time."""

    booked_seconds: int
    used_seconds: int
    days_ago: int
    excused: bool = False


@dataclass(frozen=True)
class Spread:
    """How a gang lies on its nodes. ``room_on_fewer``: at booking time it would have fitted on as few as it needs."""

    nodes: int
    gpus_per_node: int
    room_on_fewer: bool
    host_share: float = 1.0
    host_used: float = 1.0


@dataclass(frozen=True)
class Lease:
    """None: not known, and no rule guesses. ``smaller``: what a rebooking could choose from, from the driver."""

    name: str = ""
    mig: bool = False
    size: Size | None = None
    smaller: tuple[Size, ...] = ()
    cpu_limit: float | None = None
    workload: str = "batch"
    framework: str | None = None
    pcie_max: tuple[int, int] | None = None
    ended: bool = True
    double_precision_wanted: bool = False
    workers: int = 1
    past: tuple[PastBooking, ...] = ()
    spread: Spread | None = None


@dataclass(frozen=True)
class Recording:
    """``ranks``: a table a GPU of the lease; all series have the same length, one value a second since the start."""

    lease: Lease
    ranks: tuple[Series, ...]
    seconds: int = field(init=False)

    def __post_init__(self) -> None:
        lengths = {len(values) for rank in self.ranks for values in rank.values()}
        if len(lengths) != 1:
            raise ValueError(f"series of different lengths: {sorted(lengths)}")
        object.__setattr__(self, "seconds", lengths.pop())

    def series(self, name: str, rank: int) -> np.ndarray:
        """All NaN where nothing of that name was recorded."""
        values = self.ranks[rank].get(name)
        return np.full(self.seconds, np.nan) if values is None else values

    def activity(self, rank: int) -> np.ndarray:
        """The share of each second in which anything ran; SM activity stands in where that is not measured."""
        busy = self.series("gr_active", rank)
        return busy if np.isfinite(busy).any() else self.series("sm_active", rank)


def mean_of(arrays: list[np.ndarray]) -> np.ndarray:
    """Second by second over those that are known; NaN where none is."""
    stack = np.stack(arrays)
    known = np.isfinite(stack)
    count = known.sum(0)
    total = np.where(known, stack, 0.0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def blocks_of(values: np.ndarray, seconds: int) -> np.ndarray:
    """Means of consecutive blocks, from the first second; NaN for a block of which less than half is known."""
    count = len(values) // seconds
    table = values[: count * seconds].reshape(count, seconds)
    known = np.isfinite(table)
    n = known.sum(1)
    total = np.where(known, table, 0.0).sum(1)
    return np.where(n * 2 >= seconds, total / np.maximum(n, 1), np.nan)


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """Half-open ranges of consecutive true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
