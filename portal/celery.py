"""The Celery application; tasks live in ``scheduler.tasks`` alone."""

import os

from celery import Celery
from kombu.exceptions import KombuError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("berth")
app.config_from_object("django.conf:settings", namespace="CELERY")
# By name and only in workers and beat: nothing of the portal imports tasks.
TASKS = ("dispatch", "sweeps", "sums", "seals", "queue", "beat", "watchdog")
app.conf.imports = [f"scheduler.tasks.{name}" for name in TASKS]
app.conf.worker_direct = True  # a queue of each worker's own, for its watchdog's canary


def broker_errors(sender: Celery) -> tuple[type[BaseException], ...]:
    """What sending raises while the broker cannot be reached: Kombu wraps most of what the client says, not all."""
    return (KombuError, *sender.connection_for_write().recoverable_connection_errors)
