"""Notices are kept as long as anybody looks back to them, and then forgotten with their deliveries."""

import datetime as dt

from django.utils import timezone

from portal.notices.models import Notice

KEPT = dt.timedelta(days=180)
MOST_ROWS = 1000


def forget_old_notices(now: dt.datetime | None = None) -> int:
    """Read or not, after 180 days; at most 1,000 a call. Returns how many."""
    old = Notice.objects.filter(created_at__lt=(now or timezone.now()) - KEPT).order_by("created_at")
    ids = list(old.values_list("pk", flat=True)[:MOST_ROWS])
    Notice.objects.filter(pk__in=ids).delete()
    return len(ids)
