"""Keeps the ledger's sums by day, and notices when they are not what the ledger says."""

import logging

from celery import shared_task

from portal.ledger import sums
from scheduler.tasks.sweeps import sweep

log = logging.getLogger(__name__)


@shared_task(name="scheduler.sum_up")
def sum_up() -> int:
    return sweep("sum_up", sums.sum_up)


@shared_task(name="scheduler.check_sums")
def check_sums() -> int:
    """How many differences there are. None is repaired here: a person looks first, then runs ``ledger_rebuild``."""
    return sweep("check_sums", _differences, until_done=False)


def _differences() -> int:
    found = sums.compare()
    for difference in found.differences:
        log.error("daily sum %s", difference)
    for entry_id in found.lost:
        log.error("ledger entry %s is in no daily sum and does not wait for one", entry_id)
    return len(found.differences) + len(found.lost)
