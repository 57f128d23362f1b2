"""A worker that is up but hears nothing any more ends itself, and whoever supervises it starts it anew."""

import logging
import os
import threading
import time
from collections.abc import Callable

from celery import Celery, shared_task
from celery.signals import task_received, worker_ready, worker_shutting_down
from celery.utils.nodenames import worker_direct
from celery.worker import state

from portal.celery import app, broker_errors

log = logging.getLogger(__name__)

SING_SECONDS = 30.0
DEAF_SECONDS = 120.0
DEAF_EXIT = 1
CANARY = "scheduler.canary"


@shared_task(name=CANARY)
def canary() -> None:
    """Does nothing: that it is received is the news."""


class Watchdog:
    """``sing`` sends a canary to this worker's own queue and raises OSError when the broker cannot be reached.

    Deaf is who has not received one for 120 s while the broker took them and no task held the worker up.
    """

    def __init__(
        self, sing: Callable[[], None], busy: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sing = sing
        self._busy = busy
        self._clock = clock
        self._heard_at = clock()

    def hear(self) -> None:
        self._heard_at = self._clock()

    def is_deaf(self) -> bool:
        """Look once, and send the next canary."""
        try:
            self._sing()
        except OSError as error:
            log.warning("no canary could be sent: %s", error)
            self.hear()
        if self._busy():
            self.hear()
        return self._clock() - self._heard_at > DEAF_SECONDS


def send_canary(sender: Celery, queue: str) -> None:
    """Raises OSError when the broker cannot be reached, and nothing else for that."""
    try:
        sender.send_task(CANARY, queue=queue, expires=DEAF_SECONDS, retry=False)
    except broker_errors(sender) as error:
        raise OSError(str(error)) from error


def _watch(watchdog: Watchdog, ended: threading.Event) -> None:
    while not ended.wait(SING_SECONDS):
        if watchdog.is_deaf():
            log.critical("nothing was received for %.0f s: this worker ends, to be started anew", DEAF_SECONDS)
            os._exit(DEAF_EXIT)  # an orderly stop would wait for the connection that is dead


class _Post:
    """The watchdog of this worker process, once it is ready."""

    watchdog: Watchdog | None = None
    ended = threading.Event()


@worker_ready.connect
def start_watching(sender, **_signal) -> None:
    own_queue = worker_direct(sender.hostname).name

    _Post.watchdog = Watchdog(lambda: send_canary(app, own_queue), lambda: bool(state.active_requests))
    threading.Thread(target=_watch, args=(_Post.watchdog, _Post.ended), name="watchdog", daemon=True).start()


@task_received.connect
def hear_canary(request=None, **_signal) -> None:
    if _Post.watchdog is not None and request is not None and request.name == CANARY:
        _Post.watchdog.hear()


@worker_shutting_down.connect
def stop_watching(**_signal) -> None:
    _Post.ended.set()
