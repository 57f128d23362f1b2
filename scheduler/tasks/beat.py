"""When each sweep runs. Intervals only: a clock change must neither skip nor double one. No ETA, no countdown."""

from portal.celery import app


def _every(seconds: float, task: str) -> dict:
    """A run that nobody took before the next two are due is dropped: it would find nothing more than they do."""
    return {"task": task, "schedule": seconds, "options": {"expires": max(10.0, 2 * seconds)}}


BEAT_SCHEDULE = {
    "freeze what starts soon": _every(2, "scheduler.freeze_due"),
    "push to nodes that are behind": _every(5, "scheduler.push_behind"),
    "end what is past its deadline": _every(5, "scheduler.end_overdue"),
    "notice silent nodes": _every(10, "scheduler.mark_silent_nodes"),
    "sum up use": _every(60, "scheduler.roll_up"),
    "forget what is old": _every(600, "scheduler.forget_old"),
}

app.conf.beat_schedule = BEAT_SCHEDULE
