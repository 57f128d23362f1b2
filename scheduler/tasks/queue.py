"""The queue: the bell of a pool in which something became free, and the sweeps that find what a bell missed."""

import datetime as dt
import logging

from celery import shared_task
from django.db import OperationalError

from portal.audit.origin import Via, coming_from
from portal.reservations import queue_serving, waitlist
from portal.reservations.errors import Busy
from scheduler.tasks.sweeps import sweep

log = logging.getLogger(__name__)


@shared_task(name="scheduler.serve_queue")
def serve_queue(pool_id: int, rung_at: int) -> int:
    """``rung_at`` in seconds since 1970: of many bells at once, those that rang before a pass need none more."""
    if queue_serving.was_looked_at(pool_id, dt.datetime.fromtimestamp(rung_at + 1, dt.UTC)):
        return 0
    return _serve(pool_id)


@shared_task(name="scheduler.serve_queues")
def serve_queues() -> int:
    return sweep("serve_queues", _serve_stale, until_done=False)


@shared_task(name="scheduler.lapse_offers")
def lapse_offers() -> int:
    return sweep("lapse_offers", waitlist.lapse_offers)


def _serve_stale() -> int:
    return sum(map(_serve, queue_serving.pools_to_look_at()))


def _serve(pool_id: int) -> int:
    try:
        with coming_from(Via.SWEEP):
            return queue_serving.serve_queue(pool_id)
    except (OperationalError, Busy) as error:
        log.warning("queue of pool %s not served, its sweep will: %s", pool_id, error)
        return 0
