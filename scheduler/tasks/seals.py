"""Puts what the audit trail tells into its chain."""

from celery import shared_task

from portal.audit.sealing import seal_entries, seal_late_entries
from scheduler.tasks.sweeps import sweep

ONE_SEALER = "seal_audit"


@shared_task(name="scheduler.seal_audit")
def seal_audit() -> int:
    return sweep(ONE_SEALER, seal_entries)


@shared_task(name="scheduler.seal_late_audit")
def seal_late_audit() -> int:
    """What was committed so late that the quick passes no longer look there."""
    return sweep(ONE_SEALER, seal_late_entries)
