"""A process of clients. Sets Django up before anything of the portal is imported there."""

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import django

PROCESSES = 4
READY_SECONDS = 120


@dataclass(frozen=True)
class Job:
    """``way`` names the peer, ``scene`` what is booked; ``clients`` are the numbers of this process's clients."""

    way: str
    scene: str
    world: Any
    clients: tuple[int, ...]
    each: int
    seed: int
    first_hour: int


@dataclass(frozen=True)
class Attempt:
    """``outcome`` is ``booked`` or the code of a refusal, ``deadlock``, or an error in words. Times are monotonic."""

    began: float
    ended: float
    outcome: str

    @property
    def seconds(self) -> float:
        return self.ended - self.began


_start: Any = None


def run_jobs(jobs: list[Job]) -> list[Attempt]:
    """Each job in a process of its own; all clients of all of them begin at the same moment."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(sum(len(job.clients) for job in jobs))
    with ProcessPoolExecutor(len(jobs), context, _set_up, (barrier,)) as pool:
        return [attempt for attempts in pool.map(_run, jobs) for attempt in attempts]


def wait_for_all() -> None:
    _start.wait(READY_SECONDS)


def _set_up(barrier: Any) -> None:
    """Before the first job comes, whose rows are of classes that need Django."""
    global _start
    _start = barrier
    django.setup()


def _run(job: Job) -> list[Attempt]:
    return importlib.import_module("tests.bench.booking.clients").run(job)
