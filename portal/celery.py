"""The Celery application; tasks live in ``scheduler.tasks`` alone."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("berth")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = ["scheduler.tasks"]
