"""When each sweep runs. Intervals only: a clock change must neither skip nor double one. No ETA, no countdown."""

from portal.celery import app


def _every(seconds: float, task: str) -> dict:
    """A run that nobody took before the next two are due is dropped: it would find nothing more than they do."""
    return {"task": task, "schedule": seconds, "options": {"expires": max(10.0, 2 * seconds)}}


BEAT_SCHEDULE = {
    "freeze what starts soon": _every(2, "scheduler.freeze_due"),
    "push to nodes that are behind": _every(5, "scheduler.push_behind"),
    "end what is past its deadline": _every(5, "scheduler.end_overdue"),
    "begin and end maintenance": _every(10, "scheduler.run_maintenance"),
    "move what has lost its place": _every(10, "scheduler.replace_from_unusable"),
    "make plans better": _every(60, "scheduler.improve_plans"),
    "serve who waits": _every(5, "scheduler.serve_queues"),
    "take back offers that lapsed": _every(5, "scheduler.lapse_offers"),
    "notice silent nodes": _every(10, "scheduler.mark_silent_nodes"),
    "let unanswered questions expire": _every(10, "scheduler.expire_approvals"),
    "remind of starts and ends": _every(30, "scheduler.remind_due"),
    "send mail that is due": _every(10, "scheduler.deliver_mail"),
    "sum up use": _every(60, "scheduler.roll_up"),
    "sum up the ledger by day": _every(60, "scheduler.sum_up"),
    "compare the sums with the ledger": _every(3600, "scheduler.check_sums"),
    "seal the audit trail": _every(5, "scheduler.seal_audit"),
    "seal what came late": _every(600, "scheduler.seal_late_audit"),
    "forget what is old": _every(600, "scheduler.forget_old"),
}

app.conf.beat_schedule = BEAT_SCHEDULE
