"""Reading notices: one's own, how many are unread, what people wish, and what was not delivered."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from portal.notices.models import UNDELIVERED, Delivery, Notice, NoticePreference

UNREAD_MOST = 100


def notices_of(user_id: int) -> QuerySet[Notice]:
    """Everything that this person was told, newest first."""
    return Notice.objects.filter(user_id=user_id)


def unread_count(user_id: int) -> int:
    """How many this person has not read; more than 100 are not counted."""
    return Notice.objects.filter(user_id=user_id, read_at__isnull=True).order_by()[:UNREAD_MOST].count()


def preferences_of(user_ids: Iterable[int]) -> dict[int, NoticePreference]:
    """The wishes of each person; the defaults, not saved, of who has none."""
    wanted = list(user_ids)
    kept = {row.user_id: row for row in NoticePreference.objects.filter(user_id__in=wanted)}
    return {user_id: kept.get(user_id) or NoticePreference(user_id=user_id) for user_id in wanted}


def wishes_of(person: Any) -> NoticePreference:
    """Of one person, in no query if the row was read with ``notice_preference``; the defaults of who has none."""
    kept: NoticePreference | None = getattr(person, "notice_preference", None)
    return kept or NoticePreference(user_id=person.pk)


def undelivered() -> QuerySet[Delivery]:
    """Mails that were refused or given up, newest first."""
    return Delivery.objects.filter(state__in=UNDELIVERED).select_related("notice")
