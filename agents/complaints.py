"""Trouble that lasts is told once and then now and then, so that it does not eat the log."""

import logging
import time
from collections.abc import Callable

AGAIN_SECONDS = 60.0


class Complaints:
    """Logs a text when it is new or was last said a minute ago."""

    def __init__(self, log: logging.Logger, steady: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._steady = steady
        self._said: dict[str, float] = {}

    def say(self, text: str) -> None:
        now = self._steady()
        self._said = {known: at for known, at in self._said.items() if now - at < AGAIN_SECONDS}
        if text not in self._said:
            self._said[text] = now
            self._log.warning("%s", text)
