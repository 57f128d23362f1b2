"""Rings for the queue of a pool when something became free in it; a sweep finds what a lost bell missed."""

import time

from django.db import transaction

from portal.events import send_task
from portal.reservations.models import State, Wait

TASK = "scheduler.serve_queue"


def ring_queue(pool_id: int) -> None:
    """After the commit, and only where somebody waits: one query."""
    if Wait.objects.filter(reservation__pool_id=pool_id, reservation__state=State.QUEUED).exists():
        ring_for_those_who_wait(pool_id)


def ring_for_those_who_wait(pool_id: int) -> None:
    """After the commit; for a caller who knows that somebody does."""
    transaction.on_commit(lambda: send_task(TASK, pool_id, int(time.time())))
