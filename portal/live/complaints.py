"""Says a lasting trouble now and then instead of once a second."""

import logging
import time


class Complaints:
    """At most one line in ``every_seconds`` for each subject, with the number of times it was left out."""

    def __init__(self, log: logging.Logger, every_seconds: float = 20) -> None:
        self._log = log
        self._every_seconds = every_seconds
        self._said: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def say(self, subject: str, error: object) -> None:
        now = time.monotonic()
        if now - self._said.get(subject, -self._every_seconds) < self._every_seconds:
            self._left_out[subject] = self._left_out.get(subject, 0) + 1
            return
        self._said[subject] = now
        repeated = self._left_out.pop(subject, 0)
        self._log.warning("%s: %s%s", subject, error, f" (and {repeated} times more)" if repeated else "")
