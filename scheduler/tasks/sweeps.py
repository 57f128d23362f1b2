"""What finds whatever an event missed. Each decides nothing: the service does, in bounded passes, safe to run twice."""

import logging
import time
from collections.abc import Callable

from celery import shared_task
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.utils import timezone

from portal.audit.origin import Via, coming_from
from portal.events import node_group, tell_group
from portal.live import rollups
from portal.notices.delivery import deliver_due
from portal.notices.forgetting import forget_old_notices
from portal.reservations import approving, improving, maintenance_sweep, reminders, replacing_sweep, sweeps
from portal.reservations.group_endings import end_lost_groups
from scheduler.tasks.locks import only_one

log = logging.getLogger(__name__)

PASS_SECONDS = 10
SESSIONS_MOST = 1000


@shared_task(name="scheduler.freeze_due")
def freeze_due() -> int:
    return sweep("freeze_due", sweeps.freeze_due)


@shared_task(name="scheduler.end_overdue")
def end_overdue() -> int:
    return sweep("end_overdue", lambda: sweeps.end_overdue() + end_lost_groups())


@shared_task(name="scheduler.push_behind")
def push_behind() -> int:
    """Once a pass: a node stays behind until its agent has answered."""
    return sweep("push_behind", _push_behind, until_done=False)


@shared_task(name="scheduler.mark_silent_nodes")
def mark_silent_nodes() -> int:
    return sweep("mark_silent_nodes", sweeps.mark_silent_nodes)


@shared_task(name="scheduler.run_maintenance")
def run_maintenance() -> int:
    return sweep("run_maintenance", maintenance_sweep.run_maintenance)


@shared_task(name="scheduler.replace_from_unusable")
def replace_from_unusable() -> int:
    return sweep("replace_from_unusable", replacing_sweep.replace_from_unusable)


@shared_task(name="scheduler.improve_plans")
def improve_plans() -> int:
    return sweep("improve_plans", improving.improve_plans, until_done=False)


@shared_task(name="scheduler.expire_approvals")
def expire_approvals() -> int:
    return sweep("expire_approvals", approving.expire_approvals)


@shared_task(name="scheduler.remind_due")
def remind_due() -> int:
    return sweep("remind_due", reminders.remind_due)


@shared_task(name="scheduler.deliver_mail")
def deliver_mail() -> int:
    """The bell of a new notice and the sweep behind it: both send what is due."""
    return sweep("deliver_mail", deliver_due)


@shared_task(name="scheduler.roll_up")
def roll_up() -> int:
    return sweep("roll_up", rollups.roll_up)


@shared_task(name="scheduler.forget_old")
def forget_old() -> int:
    """Fine samples past their retention, keys past their day, sessions past their end, notices past half a year."""
    forgotten = sweep("forget_samples", rollups.forget_old_samples)
    forgotten += sweep("forget_keys", sweeps.forget_keys, until_done=False)
    forgotten += sweep("forget_marks", sweeps.forget_marks, until_done=False)
    forgotten += sweep("forget_notices", forget_old_notices)
    return forgotten + sweep("forget_sessions", _forget_sessions)


def sweep(name: str, work: Callable[[], int], until_done: bool = True) -> int:
    """Repeat ``work`` while it finds something, for 10 s at most; returns how much it found. One process at a time."""
    found = 0
    deadline = time.monotonic() + PASS_SECONDS
    try:
        with only_one(name) as ours, coming_from(Via.SWEEP):
            while ours and time.monotonic() < deadline:
                some = work()
                found += some
                if not some or not until_done:
                    break
    except OperationalError as error:  # a lock or the database was not to be had: the next pass looks again
        log.warning("sweep %s stopped after %s: %s", name, found, error)
    if found:
        log.info("sweep %s: %s", name, found)
    return found


def _push_behind() -> int:
    behind = sweeps.nodes_behind()
    for node_id in behind:
        tell_group(node_group(node_id), {"type": "desired.changed", "node": node_id})
    return len(behind)


def _forget_sessions() -> int:
    old = Session.objects.filter(expire_date__lt=timezone.now()).values("pk")[:SESSIONS_MOST]
    return Session.objects.filter(pk__in=old).delete()[0]
