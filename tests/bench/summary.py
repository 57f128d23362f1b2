"""All benchmarks one after the other, each in a process of its own, and at the end what is met and what is short."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from tests.bench.figures import Figure, figure_in

# Of the quick form of one; what takes longer is told to stop, and killed if it does not.
SECONDS_MOST = 600
SECONDS_TO_STOP = 30
MET, SHORT, FAILED = 0, 1, 2


@dataclass(frozen=True)
class Course:
    """How one benchmark went. ``status`` is its exit status, negative if a signal ended it."""

    name: str
    status: int
    seconds: float
    figures: tuple[Figure, ...]

    @property
    def failure(self) -> str:
        """Why what it printed is no measurement; nothing where it is one."""
        if self.status not in (MET, SHORT):
            return f"failed with exit status {self.status}"
        return "" if self.figures else "measured nothing"


def run_alone(command: list[str], name: str, seconds_most: float = SECONDS_MOST) -> Course:
    """Its figures are passed on as they come. None inherits another's servers or warm caches, and however one ends the
    next is run; before that it has stopped its servers."""
    began, figures = time.monotonic(), []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    timers = [
        threading.Timer(seconds_most, process.terminate),
        threading.Timer(seconds_most + SECONDS_TO_STOP, _kill, [process.pid]),
    ]
    try:
        for timer in timers:
            timer.start()
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            if figure := figure_in(line):
                figures.append(figure)
        status = process.wait()
    finally:
        for timer in timers:
            timer.cancel()
        process.terminate()
        process.wait()
    return Course(name, status, time.monotonic() - began, tuple(figures))


def _kill(group: int) -> None:
    """Also what it started and left behind."""
    os.killpg(group, signal.SIGKILL)


def status_of(courses: list[Course]) -> int:
    """2 if any could not be measured, else 1 if any figure is short, else 0."""
    if any(course.failure for course in courses):
        return FAILED
    return SHORT if any(not figure.is_met for course in courses for figure in course.figures) else MET


def table_of(courses: list[Course]) -> list[str]:
    """A line a benchmark, and below it by how much each figure is short that is."""
    lines = [f"{'benchmark':<12} {'seconds':>7}  {'met':>7}"]
    for course in courses:
        met = sum(figure.is_met for figure in course.figures)
        told = f"{course.name:<12} {course.seconds:>7.0f}  {met:>3}/{len(course.figures):<3}  {course.failure}"
        lines.append(told.rstrip())
        lines += [f"    {figure.shortfall}" for figure in course.figures if not figure.is_met]
    figures = [figure for course in courses for figure in course.figures]
    met, failed = sum(figure.is_met for figure in figures), sum(bool(course.failure) for course in courses)
    seconds = sum(course.seconds for course in courses)
    verdict = f"{met} met, {len(figures) - met} short" + (f", {failed} failed" if failed else "")
    return [*lines, f"{'in all':<12} {seconds:>7.0f}  {met:>3}/{len(figures):<3}  {verdict}"]
