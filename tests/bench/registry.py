"""Every benchmark by the name that the command line takes."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.bench.figures import Board


@dataclass(frozen=True)
class Options:
    """What the command line said. ``seed`` is the first of five seeds; ``quick`` does with less of everything, and with
    one seed where that tells enough. ``more`` holds the options that only some benchmarks know."""

    seed: int
    quick: bool
    more: dict[str, Any]

    @property
    def seeds(self) -> range:
        """All five, or in the quick form one."""
        return self.five_seeds[:1] if self.quick else self.five_seeds

    @property
    def five_seeds(self) -> range:
        return range(self.seed, self.seed + 5)


@dataclass(frozen=True)
class Benchmark:
    """``module`` has a function ``run(options, board)``; it is imported only when it runs, after its servers.

    ``options`` are the names of the options it knows besides --seed and --quick. ``needs_servers``: it gets PostgreSQL
    and Valkey of its own, with an empty migrated database, and Django set up.
    """

    module: str
    what: str
    options: tuple[str, ...] = ()
    needs_servers: bool = False

    @property
    def run(self) -> Callable[[Options, Board], None]:
        return importlib.import_module(self.module).run


BENCHMARKS = {
    "booking": Benchmark("tests.bench.booking.run", "C1: bookings through the full service", needs_servers=True),
    "placement": Benchmark(
        "tests.bench.placement.ondemand", "P1: slices on demand, with departures", ("mix", "load", "gpus")
    ),
    "openb": Benchmark("tests.bench.placement.openb", "P2: the openb trace, replayed", ("trace", "traces", "load")),
    "headline": Benchmark(
        "tests.bench.placement.headline", "H1: allocated slice-time at load 1.1", ("mix", "load", "gpus")
    ),
    "gang": Benchmark("tests.bench.gang.run", "P5: groups of whole GPUs over nodes and racks", needs_servers=True),
    "web": Benchmark("tests.bench.web.run", "W1: pages and API over the made-up year", needs_servers=True),
    "advisor": Benchmark("tests.bench.advisor.run", "The advisor on labelled recordings", ("traces",)),
    "calendar": Benchmark(
        "tests.bench.calendar.run", "P3: reservations on a calendar, with late binding", ("mix", "load", "gpus")
    ),
    "speed": Benchmark("tests.bench.speed.run", "P4: speed of a decision on a full calendar", needs_servers=True),
}
