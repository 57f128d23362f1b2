"""P4: how long a decision takes on a full calendar of 100, 1,000 and 10,000 GPUs, against the limit and two peers."""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.placement.placing import place
from tests.bench.calendar.requests import SHAPES
from tests.bench.figures import Board
from tests.bench.registry import Options
from tests.bench.speed.peers import IntervalScan, SqlOverlap, or_scan
from tests.bench.speed.world import Question, World, filled, questions

# The largest first: what it takes of memory is seen before anything else has been freed.
SIZES = (10_000, 1_000, 100)
# On small fleets the limit itself, one OR and no decision, is no thousand times as fast as the query.
SIZES_AGAINST_SQL = (10_000,)
# As many leases a day in the quick form, so that they are as long.
DAYS, LEASES = 30, 100_000
QUICK_DAYS, QUICK_LEASES = 6, 20_000
ASKED, ROUNDS = 1_000, 5
# Slow peers are asked a few of the questions.
ASKED_OF_PYTHON, ASKED_OF_SQL, ROUNDS_OF_PEERS = 40, 20, 3


@dataclass(frozen=True)
class Speed:
    """Microseconds, the median of all questions."""

    ours: float
    ours_p99: float
    limit: float
    python: float
    sql: float
    sql_first_free: float


def run(options: Options, board: Board) -> None:
    leases, days = (QUICK_LEASES, QUICK_DAYS) if options.quick else (LEASES, DAYS)
    found: dict[int, list[Speed]] = {gpus: [] for gpus in SIZES}
    for seed in options.seeds:
        for gpus in SIZES:
            before = _resident_mb()
            world = filled(gpus, leases, days, seed)
            if gpus == SIZES[0] and seed == options.seed and not options.quick:
                _add_memory(board, world, _resident_mb() - before)
            found[gpus].append(_measured(world, questions(days, ASKED, seed)))
            board.note(f"{gpus} GPUs, {world.leases} leases, {world.fill:.0%} full, seed {seed}: {found[gpus][-1]}")
    for gpus in SIZES[::-1]:
        name, speeds = f"speed.{gpus}", found[gpus]
        board.add(name, "p50_of_or_scan", _median(one.ours / one.limit for one in speeds), "<=3")
        if gpus in SIZES_AGAINST_SQL:
            board.add(name, "times_as_fast_as_sql", _median(one.sql / one.ours for one in speeds), ">=1000")
        for peer in ("python", "sql", "sql_first_free"):
            times, most = (_median(getattr(one, peer) / getattr(one, us) for one in speeds) for us in ("ours", "limit"))
            board.note(f"{name}: {times:.0f} times as fast as {peer}; the limit {most:.0f} times")
    smallest, largest = found[SIZES[-1]], found[SIZES[0]]
    growth = _median(large.ours / small.ours for large, small in zip(largest, smallest, strict=True))
    board.add("speed.equal_fill", "10k_of_100", growth, "<=8", "<=3")


def _add_memory(board: Board, world: World, mb: float) -> None:
    board.note(f"memory: cells {world.calendar.cells.nbytes / 1e6:.0f} MB, {world.leases} leases, {world.days} days")
    board.add("speed.memory", "mb", mb, "<=300")


def _measured(world: World, asked: Sequence[Question]) -> Speed:
    calendar = world.calendar
    scan, sql = IntervalScan(calendar), SqlOverlap(calendar)
    ours = _times(lambda one: place(one.shape, 1, calendar, one.window, SHAPES), asked, ROUNDS)
    limit = _times(lambda one: or_scan(calendar, one), asked, ROUNDS)
    _agree(world, asked[:ASKED_OF_SQL], scan, sql)
    return Speed(
        statistics.median(ours),
        statistics.quantiles(ours, n=100)[98],
        statistics.median(limit),
        statistics.median(_times(scan.first_fit, asked[:ASKED_OF_PYTHON], ROUNDS_OF_PEERS)),
        statistics.median(_times(sql.overlaps, asked[:ASKED_OF_SQL], ROUNDS_OF_PEERS)),
        statistics.median(_times(sql.first_free, asked[:ASKED_OF_SQL], ROUNDS_OF_PEERS)),
    )


def _agree(world: World, asked: Sequence[Question], scan: IntervalScan, sql: SqlOverlap) -> None:
    """All find room or none does: what is compared answers the same question."""
    for one in asked:
        ours = place(one.shape, 1, world.calendar, one.window, SHAPES)
        answers = [bool(answer) for answer in (ours, scan.first_fit(one), sql.overlaps(one), sql.first_free(one))]
        if len(set(answers)) > 1:
            raise AssertionError(f"{one} has room for some and none for others: {answers}")


def _times(decide: Callable[[Question], object], asked: Sequence[Question], rounds: int) -> list[float]:
    """Of each question the quickest of the rounds, which is what it costs when nobody else is at the machine."""
    best = [float("inf")] * len(asked)
    for _round in range(rounds):
        for number, one in enumerate(asked):
            began = time.perf_counter_ns()
            decide(one)
            best[number] = min(best[number], (time.perf_counter_ns() - began) / 1000)
    return best


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def _median(values) -> float:
    return statistics.median(list(values))
