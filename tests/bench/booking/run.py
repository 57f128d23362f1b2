"""C1: 64 clients book through the full service, on the last slice and spread over a thousand GPUs."""

import collections
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.reservations.booking import book_reservation
from tests.bench.booking.clients import LAST, SPREAD, requests_of
from tests.bench.booking.peers import CONSTRAINT, INSERT, OURS, WINDOW_LOCK
from tests.bench.booking.worker import PROCESSES, Attempt, Job, run_jobs
from tests.bench.booking.world import CLIENTS, World, clear, double_bookings, make_world
from tests.bench.figures import Board
from tests.bench.registry import Options

EACH, QUICK_EACH = {LAST: 10, SPREAD: 10}, {LAST: 2, SPREAD: 2}
QUERIES_MOST = 14


@dataclass(frozen=True)
class Run:
    """One way in one scene with one seed."""

    attempts: Sequence[Attempt]
    doubles: int

    @property
    def booked(self) -> int:
        return sum(attempt.outcome == "booked" for attempt in self.attempts)

    @property
    def span_seconds(self) -> float:
        return max(each.ended for each in self.attempts) - min(each.began for each in self.attempts)

    @property
    def booked_a_second(self) -> float:
        return self.booked / self.span_seconds

    @property
    def answers_a_second(self) -> float:
        return len(self.attempts) / self.span_seconds

    @property
    def p99_ms(self) -> float:
        seconds = sorted(attempt.seconds for attempt in self.attempts)
        return 1000 * seconds[math.ceil(0.99 * len(seconds)) - 1]

    def __str__(self) -> str:
        outcomes = dict(collections.Counter(attempt.outcome for attempt in self.attempts).most_common(5))
        speed = f"{self.booked_a_second:.1f} booked/s, {self.answers_a_second:.1f} answers/s"
        return f"{speed}, p99 {self.p99_ms:.0f} ms, {outcomes}"


def run(options: Options, board: Board) -> None:
    world = make_world()
    queries = _queries(world)
    runs: dict[tuple[str, str], list[Run]] = collections.defaultdict(list)
    for seed in options.seeds:
        for scene, ways in ((LAST, (OURS, CONSTRAINT, WINDOW_LOCK)), (SPREAD, (OURS, WINDOW_LOCK, INSERT))):
            for way in ways:
                each = (QUICK_EACH if options.quick else EACH)[scene]
                runs[scene, way].append(found := _run(world, way, scene, each, seed))
                board.note(f"    seed {seed} {scene} {way}: {found}")
    _tell(board, runs, queries)


def _run(world: World, way: str, scene: str, each: int, seed: int) -> Run:
    clear()
    numbers = [tuple(range(first, CLIENTS, PROCESSES)) for first in range(PROCESSES)]
    attempts = run_jobs([Job(way, scene, world, mine, each, seed, first_hour=0) for mine in numbers])
    return Run(attempts, double_bookings())


def _queries(world: World) -> int:
    """Of one booking in the wide pool, without those that begin and end its transaction."""
    job = Job(OURS, SPREAD, world, (0,), 2, 1, first_hour=0)
    first, second = requests_of(job, 0)
    book_reservation(**first)
    with CaptureQueriesContext(connection) as asked:
        book_reservation(**second)
    return sum(1 for query in asked.captured_queries if query["sql"] not in ("BEGIN", "COMMIT"))


def _tell(board: Board, runs: dict[tuple[str, str], list[Run]], queries: int) -> None:
    ours = [*runs[LAST, OURS], *runs[SPREAD, OURS]]
    board.add("booking", "double_bookings", sum(run.doubles for run in ours), "<=0")
    board.add("booking", "deadlock_answers", _count(ours, "deadlock"), "<=0")
    board.add("booking", "errors", _errors(ours), "<=0")
    rounds = sum(run.booked for run in runs[LAST, OURS])
    wanted = sum(len(run.attempts) // CLIENTS for run in runs[LAST, OURS])
    board.add("booking.last", "winners_a_round", rounds / wanted, "==1")
    against = _median_ratio(runs[LAST, OURS], runs[LAST, CONSTRAINT], "p99_ms")
    board.add("booking.last", "p99_of_constraint_alone", against, "<=0.5")
    speed = _median_ratio(runs[LAST, OURS], runs[LAST, WINDOW_LOCK], "answers_a_second")
    board.note(f"    last slice: {speed:.2f} times the answers a second of FOR UPDATE over the window's leases")
    speed = _median_ratio(runs[SPREAD, OURS], runs[SPREAD, WINDOW_LOCK], "booked_a_second")
    board.add("booking.spread", "speed_of_window_lock", speed, ">=1", stretch=">=3")
    against = _median_ratio(runs[SPREAD, OURS], runs[SPREAD, WINDOW_LOCK], "p99_ms")
    board.add("booking.spread", "p99_of_window_lock", against, "<=1")
    board.add("booking.spread", "queries", queries, f"<={QUERIES_MOST}")
    limit = _median_ratio(runs[SPREAD, OURS], runs[SPREAD, INSERT], "booked_a_second")
    board.note(f"    spread: {limit:.3f} of the rate at which empty inserts are committed")


def _median_ratio(ours: list[Run], peers: list[Run], what: str) -> float:
    """Seed by seed, each against the peer of the same minute."""
    return statistics.median(getattr(one, what) / getattr(peer, what) for one, peer in zip(ours, peers, strict=True))


def _count(runs: list[Run], outcome: str) -> int:
    return sum(attempt.outcome == outcome for run in runs for attempt in run.attempts)


def _errors(runs: list[Run]) -> int:
    """Answers that are neither a booking nor one of the service's own refusals."""
    return sum(":" in attempt.outcome for run in runs for attempt in run.attempts)
