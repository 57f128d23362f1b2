"""Reminders before a start and before an end: how long before, each person chooses for themselves."""

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import F, Func, Q
from django.utils import timezone

from portal.notices.models import Kind, NoticePreference
from portal.notices.reminding import LEADS_SECONDS, already_reminded
from portal.notices.selectors import preferences_of
from portal.notices.services import notify
from portal.reservations.models import OPEN, Lower, Reservation, Upper

# After an outage a reminder is told that much late; an older one would tell what everybody has seen.
LATEST = dt.timedelta(minutes=30)
MOST_TOLD = 200


@dataclass(frozen=True)
class Reminder:
    """One that is due: of which reservation, for which moment, how long before it."""

    kind: Kind
    reservation: Reservation
    at: dt.datetime
    lead_seconds: int

    @property
    def once(self) -> str:
        """A reservation that is moved has another moment, and is reminded of that one too."""
        return f"{self.reservation.pk}:{int(self.at.timestamp())}:{self.lead_seconds}"


def remind_due(now: dt.datetime | None = None) -> int:
    """Tell owners of confirmed and running reservations, each once; at most 200 a call. Returns how many were told."""
    now = now or timezone.now()
    told = 0
    for kind, bound in ((Kind.STARTING, Lower), (Kind.ENDING, Upper)):
        due = list(_due(kind, bound, now))
        known = already_reminded(kind, (reminder.once for reminder in due))
        fresh = [reminder for reminder in due if reminder.once not in known]
        for reminder in fresh[: MOST_TOLD - told]:
            _tell(reminder)
            told += 1
    return told


def _due(kind: Kind, bound: type[Func], now: dt.datetime) -> Iterator[Reminder]:
    """Only what was there when the reminder fell due: who books for the next hour needs none for the day before."""
    near = Q(pk__in=[])
    for seconds in LEADS_SECONDS:
        until = now + dt.timedelta(seconds=seconds)
        near |= Q(moment__gt=until - LATEST, moment__lte=until)
    rows = Reservation.objects.annotate(moment=bound(F("during"))).filter(
        near, state__in=OPEN, moment__gt=now, moment__lte=now + dt.timedelta(seconds=max(LEADS_SECONDS))
    )
    needed = ("owner_id", "tenant_id", "during", "created_at", "workload__name")
    found = list(rows.select_related("workload").only(*needed).order_by("moment", "pk"))
    wishes = preferences_of({reservation.owner_id for reservation in found})
    for reservation in found:
        moment = reservation.starts_at if kind == Kind.STARTING else reservation.ends_at
        begun = reservation.created_at if kind == Kind.STARTING else max(reservation.created_at, reservation.starts_at)
        for seconds in _leads(kind, wishes[reservation.owner_id]):
            due_at = moment - dt.timedelta(seconds=seconds)
            if max(now - LATEST, begun) < due_at <= now:
                yield Reminder(kind, reservation, moment, seconds)


def _leads(kind: Kind, wishes: NoticePreference) -> Iterable[int]:
    return wishes.start_leads_seconds if kind == Kind.STARTING else wishes.end_leads_seconds


def _tell(reminder: Reminder) -> None:
    reservation = reminder.reservation
    notify(
        users=[reservation.owner_id],
        kind=reminder.kind,
        reservation_id=reservation.pk,
        tenant_id=reservation.tenant_id,
        once=reminder.once,
        name=reservation.workload.name,
        starts_at=reservation.starts_at,
        ends_at=reservation.ends_at,
        lead_seconds=reminder.lead_seconds,
    )
