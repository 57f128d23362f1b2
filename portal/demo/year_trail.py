"""Writes what the made-up reservations left in the audit trail and in people's inboxes."""

import datetime as dt
from collections.abc import Iterator, Sequence

from django.urls import reverse

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.audit.origin import Via
from portal.demo.year_copy import copy_rows
from portal.demo.year_fates import CANCELLED, RELEASED
from portal.demo.year_plan import Use
from portal.notices.models import Delivery, DeliveryState, Kind, Notice
from portal.reservations.models import EndReason, Reservation, State

NOTICE_DAYS = 60
NOTICE_BEFORE_END = dt.timedelta(minutes=15)
TOLD_OF_STATE = {State.REQUESTED: Kind.APPROVAL_WANTED, State.REFUSED: Kind.REFUSED, State.CANCELLED: Kind.CANCELLED}
TOLD_OF_END = {
    EndReason.FAILED: Kind.FAILED,
    EndReason.NODE_LOST: Kind.FAILED,
    EndReason.DISPLACED: Kind.DISPLACED,
}


def write_trail(rows: Sequence[Reservation], uses: Sequence[Use]) -> None:
    """Two entries at most for each reservation, in the order in which things happened."""
    entries = [entry for row, use in zip(rows, uses, strict=True) for entry in _entries(row, use)]
    entries.sort(key=lambda entry: entry.at)
    copy_rows(entries)


def _entries(row: Reservation, use: Use) -> Iterator[AuditEntry]:
    booked = {
        "profile": use.shape.profile_id, "ranks": use.ranks, "start": use.start.isoformat(), "end": use.end.isoformat(),
        "owner": row.owner_id,
    }  # fmt: skip
    yield _entry(row, use.asked_at, row.created_by_id, "booked", after=booked)
    if row.ended_at is None:
        return
    if use.fate is CANCELLED:
        yield _entry(row, row.ended_at, row.owner_id, "cancelled", before={"state": State.CONFIRMED})
    if use.fate is RELEASED:
        yield _entry(row, row.ended_at, row.owner_id, "released", before={"state": State.RUNNING})
    if use.fate.state == State.REFUSED and row.approval is not None:
        yield _entry(row, row.ended_at, row.approval.decided_by_id, "refused", before={"state": State.REQUESTED})


def _entry(row: Reservation, at: dt.datetime, actor_id: int | None, what: str, **changes) -> AuditEntry:
    return AuditEntry(
        at=at, actor_id=actor_id, tenant_id=row.tenant_id, action=f"reservation.{what}", subject=row.number,
        via=Via.PAGE, address="192.0.2.7", **changes,
    )  # fmt: skip


def write_notices(rows: Sequence[Reservation], uses: Sequence[Use], now: dt.datetime) -> None:
    """Of the last weeks, most of them read and sent. An address is that of the example domain."""
    since = now - dt.timedelta(days=NOTICE_DAYS)
    notices = [
        notice for row, use in zip(rows, uses, strict=True) if use.end > since for notice in _notices(row, use, now)
    ]
    notices.sort(key=lambda notice: notice.created_at)
    copy_rows(notices)
    addresses = dict(User.objects.values_list("pk", "email"))
    copy_rows(
        [
            Delivery(
                notice=notice, address=addresses[notice.user_id], state=DeliveryState.SENT, attempts=1,
                next_try_at=notice.created_at, sent_at=notice.created_at,
            )
            for notice in notices
        ]
    )  # fmt: skip


def _notices(row: Reservation, use: Use, now: dt.datetime) -> Iterator[Notice]:
    kind = TOLD_OF_STATE.get(use.fate.state, Kind.CONFIRMED)
    yield _notice(row, kind, use.asked_at, now, starts_at=use.start.isoformat(), ends_at=use.end.isoformat())
    if use.fate.end_reason in TOLD_OF_END and use.closed:
        yield _notice(row, TOLD_OF_END[use.fate.end_reason], use.closed, now)
    elif use.opened and use.end - NOTICE_BEFORE_END < now:
        yield _notice(row, Kind.ENDING, max(use.opened, use.end - NOTICE_BEFORE_END), now, ends_at=use.end.isoformat())


def _notice(row: Reservation, kind: Kind, at: dt.datetime, now: dt.datetime, **facts: str) -> Notice:
    read_at = at + dt.timedelta(hours=2) if row.pk % 5 and at + dt.timedelta(hours=2) < now else None
    return Notice(
        user_id=row.owner_id, kind=kind, reservation_id=row.pk, tenant_id=row.tenant_id, created_at=at, read_at=read_at,
        url=reverse("reservation", args=[row.pk]), facts={"name": row.workload.name, **facts},
    )  # fmt: skip
