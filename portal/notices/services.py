"""Telling people. Rows are written in the transaction of what they tell; what leaves the house does so after commit."""

import datetime as dt
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.events import send_task, tell_user_on_commit
from portal.notices.models import UNDELIVERED, Delivery, DeliveryState, Kind, Notice, NoticePreference
from portal.notices.selectors import wishes_of

Fact = int | str | dt.datetime


@transaction.atomic(savepoint=False)
def notify(
    *,
    users: Iterable[Any],
    kind: Kind,
    reservation_id: int | None = None,
    tenant_id: int | None = None,
    url: str = "",
    once: str | None = None,
    **facts: Fact,
) -> None:
    """Tell each person (a User or its id) once; the disabled are told nothing. Nothing is sent before the commit.

    Facts that the words know: ``name`` (of the workload), ``starts_at ends_at was_starts_at was_ends_at expires_at``,
    ``by`` (a person's name), ``note`` and ``reason`` (as somebody typed them), ``price_slice_seconds
    credited_slice_seconds``, ``rest`` (the number of what continues it), ``what`` (a node or pool),
    ``number`` (of reservations), ``pool tenant limit was_limit``. All may be left out. Raises
    ValueError for a fact ``..._at`` that is no time with its offset, and for a url that is no path.
    """
    kept = {name: _kept(name, value) for name, value in facts.items()}
    path = url or (reverse("reservation", args=[reservation_id]) if reservation_id else reverse("inbox"))
    if not path.startswith("/") or path.startswith("//"):
        raise ValueError(f"{path!r} is no path of the portal.")
    ids = {getattr(user, "pk", user) for user in users}
    rows = get_user_model().objects.filter(pk__in=ids, is_active=True).select_related("notice_preference")
    people = list(rows.order_by("pk"))
    by_mail = {person.pk: person.email for person in people if kind not in wishes_of(person).not_by_mail}
    told = _told([person.pk for person in people], kind, once)
    about = {"reservation_id": reservation_id, "tenant_id": tenant_id, "url": path, "facts": kept, "once": once}
    notices = [Notice(user_id=person.pk, kind=kind, **about) for person in people if person.pk not in told]
    Notice.objects.bulk_create(notices, ignore_conflicts=once is not None)
    _add_deliveries(_written(notices, kind, once), by_mail)
    for notice in notices:
        tell_user_on_commit(notice.user_id, "notice.new")


def _kept(name: str, value: Fact) -> int | str:
    if not name.endswith("_at"):
        return value if isinstance(value, int) else str(value)
    when = parse_datetime(value) if isinstance(value, str) else value
    if not isinstance(when, dt.datetime) or when.tzinfo is None:
        raise ValueError(f"{name}={value!r} is no time with its offset from UTC.")
    return when.astimezone(dt.UTC).isoformat()


def _told(user_ids: Iterable[int], kind: Kind, once: str | None) -> set[int]:
    if once is None:
        return set()
    rows = Notice.objects.filter(user_id__in=user_ids, kind=kind, once=once)
    return set(rows.values_list("user_id", flat=True))


def _written(notices: Sequence[Notice], kind: Kind, once: str | None) -> Sequence[Notice]:
    """What is there now: another transaction may have told the same in the same instant, and its row counts."""
    if once is None:
        return notices
    people = [notice.user_id for notice in notices]
    return list(Notice.objects.filter(user_id__in=people, kind=kind, once=once))


def _add_deliveries(notices: Sequence[Notice], addresses: dict[int, str]) -> None:
    """A mail to each person who has an address here."""
    rows = [
        Delivery(notice=notice, address=addresses[notice.user_id]) for notice in notices if notice.user_id in addresses
    ]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    if rows:
        transaction.on_commit(partial(send_task, "scheduler.deliver_mail"))


def mark_read(*, user_id: int, notice_id: int | None = None) -> int:
    """Of one notice, or of all that the person has; returns how many were unread."""
    unread = Notice.objects.filter(user_id=user_id, read_at__isnull=True)
    if notice_id is not None:
        unread = unread.filter(pk=notice_id)
    with transaction.atomic():
        count = unread.update(read_at=timezone.now())
        if count:
            tell_user_on_commit(user_id, "notice.read")
    return count


def settle(*, kind: Kind, reservation_ids: Iterable[int]) -> int:
    """What asked people to act about these reservations is done: nobody has to read it any more. Returns how many
    were unread. In the transaction that did it."""
    rows = Notice.objects.filter(kind=kind, reservation_id__in=list(reservation_ids), read_at__isnull=True)
    people = dict(rows.values_list("pk", "user_id"))
    Notice.objects.filter(pk__in=people).update(read_at=timezone.now())
    for user_id in set(people.values()):
        tell_user_on_commit(user_id, "notice.read")
    return len(people)


@transaction.atomic
def set_preferences(
    *, user_id: int, not_by_mail: list[str], start_leads_seconds: list[int], end_leads_seconds: list[int]
) -> None:
    """What the person wants from now on; mails that wait already are sent."""
    NoticePreference.objects.update_or_create(
        user_id=user_id,
        defaults={
            "not_by_mail": not_by_mail,
            "start_leads_seconds": start_leads_seconds,
            "end_leads_seconds": end_leads_seconds,
        },
    )


@transaction.atomic
def retry_deliveries(delivery_id: int | None = None) -> int:
    """Try again what was refused or given up, one or all, with all its attempts anew; returns how many."""
    rows = Delivery.objects.filter(state__in=UNDELIVERED)
    if delivery_id is not None:
        rows = rows.filter(pk=delivery_id)
    count = rows.update(state=DeliveryState.PENDING, attempts=0, next_try_at=timezone.now())
    if count:
        transaction.on_commit(partial(send_task, "scheduler.deliver_mail"))
    return count
