"""Steps with their time, one line each, and the last line that says how it went."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Report:
    """Knows how many steps there are before the first, so that a step that was never reached counts as not passed."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.passed = 0
        self.running_seconds: list[float] = []
        self.sample_seconds: list[float] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            tell(f"  FAILED {time.monotonic() - began:5.1f} s  {name}: {type(error).__name__}: {error}")
            raise StepFailed(name) from error
        self.passed += 1
        tell(f"  ok     {time.monotonic() - began:5.1f} s  {name}")

    @property
    def all_passed(self) -> bool:
        return self.passed == self.steps

    def last_line(self) -> str:
        return (
            f"smoke: {self.passed}/{self.steps} steps, booked to running {_worst(self.running_seconds)} s, "
            f"sample to browser {_worst(self.sample_seconds)} s"
        )


class StepFailed(Exception):
    """A step did not pass; the rest of its path makes no sense without it."""


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _worst(seconds: list[float]) -> str:
    return f"{max(seconds):.1f}" if seconds else "?"
