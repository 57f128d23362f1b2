"""Changing what is left of a series: as one object, whatever its number of reservations (R-04).

What has begun or is over stays as it is. All of it happens in one transaction, or nothing does.
"""

import datetime as dt
from collections.abc import Sequence

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.booking import lock_pool, retried
from portal.reservations.ending import MOVED, end_question, lock_reservations, withdraw_leases
from portal.reservations.errors import StateConflict
from portal.reservations.models import Decision, Lease, LeaseState, Reservation, Series, State, Wait
from portal.reservations.rebinding import touch_pool
from portal.reservations.series_booking import series_subject

BEFORE_RUNNING = [State.REQUESTED, State.QUEUED, State.CONFIRMED]


def cancel_series(*, series: Series, actor: User, from_date: dt.date | None = None) -> int:
    """Cancel every occurrence that has not begun, from a date on or all; returns the number of reservations.

    Locks the pool, the leases, the reservations. Raises StateConflict when nothing is left to cancel.
    """
    return retried(series.pool, lambda: _cancel(series, actor, from_date))


def _cancel(series: Series, actor: User, from_date: dt.date | None) -> int:
    lock_pool(series.pool_id)
    given_back = give_back(ahead_of(series, from_date), actor)
    if not given_back:
        raise StateConflict(_("%(name)s has nothing left to cancel.") % {"name": series.name})
    if not ahead_of(series):
        Series.objects.filter(pk=series.pk, ended_at__isnull=True).update(ended_at=timezone.now())
    record_change(
        actor=actor, action="series.cancelled", subject=series_subject(series), tenant_id=series.tenant_id,
        after={"from": str(from_date or ""), "reservations": len(given_back)})  # fmt: skip
    tell_series(series, given_back, Kind.CANCELLED, actor)
    return len(given_back)


def skip_occurrence(*, series: Series, date: dt.date, actor: User) -> int:
    """Give one occurrence back, for everybody, and remember the date as an exception; returns how many that were.

    Raises StateConflict when there is none on this date, or when it has begun: each is released by itself then.
    """
    return retried(series.pool, lambda: _skip(series, date, actor))


def _skip(series: Series, date: dt.date, actor: User) -> int:
    lock_pool(series.pool_id)
    series.refresh_from_db(fields=["exceptions"])
    given_back = give_back([one for one in ahead_of(series) if one.occurrence == date], actor)
    if not given_back:
        sentence = _("%(name)s has no occurrence on %(date)s that has not begun.")
        raise StateConflict(sentence % {"name": series.name, "date": f"{date:%Y-%m-%d}"}, field="date")
    Series.objects.filter(pk=series.pk).update(exceptions=sorted({*series.exceptions, date}))
    record_change(
        actor=actor, action="series.skipped", subject=series_subject(series), tenant_id=series.tenant_id,
        after={"date": str(date), "reservations": len(given_back)})  # fmt: skip
    tell_series(series, given_back, Kind.CANCELLED, actor)
    return len(given_back)


def remove_person(*, series: Series, person: User, actor: User) -> int:
    """Take somebody off the roster and give back what they have not begun; returns how many reservations."""
    return retried(series.pool, lambda: _remove(series, person, actor))


def _remove(series: Series, person: User, actor: User) -> int:
    lock_pool(series.pool_id)
    if not series.roster.filter(pk=person.pk).exists():
        raise StateConflict(_("%(person)s is not on the roster.") % {"person": person}, field="person")
    given_back = give_back([one for one in ahead_of(series) if one.owner_id == person.pk], actor)
    series.roster.remove(person)
    record_change(
        actor=actor, action="series.person_removed", subject=series_subject(series), tenant_id=series.tenant_id,
        before={"person": person.pk}, after={"reservations": len(given_back)})  # fmt: skip
    tell_series(series, given_back, Kind.CANCELLED, actor)
    return len(given_back)


def ahead_of(series: Series, from_date: dt.date | None = None) -> list[Reservation]:
    """What is under way and has not begun, in order of its occurrence; of all dates or from one on."""
    rows = series.reservations.filter(state__in=BEFORE_RUNNING, during__startswith__gt=timezone.now())
    rows = rows.filter(occurrence__gte=from_date) if from_date else rows
    return list(rows.select_related("workload", "owner", "tenant", "pool", "profile").order_by("occurrence", "pk"))


def lock_leases(reservations: Sequence[Reservation]) -> list[Lease]:
    """Their leases by id, then they themselves. What a move has left behind is not among them."""
    rows = Lease.objects.select_for_update(no_key=True).filter(reservation__in=reservations).exclude(end_reason=MOVED)
    leases = list(rows.order_by("pk"))
    lock_reservations([one.pk for one in reservations])
    return leases


def give_back(reservations: Sequence[Reservation], actor: User) -> list[Reservation]:
    """Cancel these, but for what began in the meantime; returns those. Call under the pool's lock.

    A question that no other reservation hangs on any more is withdrawn.
    """
    if not reservations:
        return []
    leases, now = lock_leases(reservations), timezone.now()
    begun = {lease.reservation_id for lease in leases if lease.state not in (LeaseState.PLANNED, LeaseState.ENDED)}
    rest = [one for one in reservations if one.pk not in begun]
    withdraw_leases([lease for lease in leases if lease.reservation_id not in begun])
    Reservation.objects.filter(pk__in=[one.pk for one in rest], state__in=BEFORE_RUNNING).update(
        state=State.CANCELLED, hold_expires_at=None, ended_at=now
    )
    Wait.objects.filter(reservation__in=rest).delete()
    for one in {each.approval_id: each for each in rest}.values():
        end_question(one, Decision.WITHDRAWN)
    for one in rest:
        record_change(
            actor=actor, action="reservation.cancelled", subject=one.number, tenant_id=one.tenant_id,
            before={"state": one.state}, after={"series": one.series_id})  # fmt: skip
    if rest:
        touch_pool(rest[0].pool_id)
    return rest


def tell_series(series: Series, concerned: Sequence[Reservation], kind: Kind, actor: User) -> None:
    """Each owner once, by the first of theirs; who did it knows."""
    if not concerned:
        return
    first = {one.owner_id: one for one in reversed(concerned) if one.owner_id != actor.pk}
    for owner_id, one in first.items():
        notify(
            users=[owner_id], kind=kind, tenant_id=series.tenant_id, url=reverse("series_one", args=[series.pk]),
            name=series.name, by=str(actor), starts_at=one.during.lower, ends_at=one.during.upper)  # fmt: skip
    events.tell_tenant_on_commit(series.tenant_id, "reservation.changed", reservation=concerned[0].pk)
