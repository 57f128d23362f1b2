"""Other times for what is left of a series, and another person on its roster; checked as a new booking is."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.notices.models import Kind
from portal.quotas.policies import policy_of
from portal.reservations.booking import find_place, lock_budgets, lock_pool, retried
from portal.reservations.borrowing import promote_own
from portal.reservations.ending import MOVED, withdraw_leases
from portal.reservations.errors import NoAccess, PolicyRefused, ReservationRefused, StateConflict
from portal.reservations.giving_way import make_way
from portal.reservations.models import Reservation, Series, State
from portal.reservations.questions import threshold_for
from portal.reservations.reasons import slice_hours
from portal.reservations.rebinding import bind_each, freeze_now, touch_pool
from portal.reservations.request import Request, price_of
from portal.reservations.rules import check_request
from portal.reservations.series_asked import (
    SeriesAsked,
    check_people,
    check_shares,
    clock_of,
    held_in,
    refused_for,
)
from portal.reservations.series_booking import book_occurrences, lock_who_may_give_way, series_subject
from portal.reservations.series_changing import ahead_of, lock_leases, tell_series
from portal.reservations.series_dates import Clock, Occurrence, parse_rule
from portal.tenants.models import Role
from portal.tenants.selectors import may
from portal.workloads.drafts import WorkloadDraft

Group = list[Reservation]
WindowOn = Callable[[dt.date], DateTimeTZRange]


def change_series(
    *, series: Series, actor: User, from_date: dt.date, opens: dt.time, closes: dt.time, days: int = 0
) -> int:
    """The times of every occurrence from a date on; returns how many have others now. All of them or none.

    Each keeps its number and weight; its place may become another. Locks the pool, the budgets, the leases, the
    reservations. What waits for an answer is not moved, nor what a node has been told of: that is refused.
    """
    clock = replace(clock_of(series), opens=opens, closes=closes, days=days)
    return retried(series.pool, lambda: _change(series, actor, from_date, clock))


def _change(series: Series, actor: User, from_date: dt.date, clock: Clock) -> int:
    lock_pool(series.pool_id)
    lock_budgets(series.tenant)
    rows = ahead_of(series, from_date)
    groups = [list(group) for _date, group in groupby(rows, key=lambda one: one.occurrence)]
    if not groups:
        raise StateConflict(_("%(name)s has nothing left to change.") % {"name": series.name})
    _check_movable(rows)
    windows, now = _windows(groups, clock), timezone.now()
    _check_price(series, actor, groups, windows)
    lock_who_may_give_way(series.pool, windows)
    leases = lock_leases(rows)
    if any(lease.frozen_at is not None for lease in leases):
        raise StateConflict(_("The next occurrence is with its node already: change the series from a later date on."),
                            field="from_date")  # fmt: skip
    withdraw_leases(leases, MOVED)
    _replace_all(actor, groups, windows, now)
    before = {"opens": str(series.opens), "closes": str(series.closes), "days": series.days}
    Series.objects.filter(pk=series.pk).update(opens=clock.opens, closes=clock.closes, days=clock.days)
    record_change(
        actor=actor, action="series.changed", subject=series_subject(series), tenant_id=series.tenant_id,
        before=before, after={"from": str(from_date), "opens": str(clock.opens), "closes": str(clock.closes),
                              "days": clock.days, "reservations": len(rows)})  # fmt: skip
    tell_series(series, [one for group in groups for one in group], Kind.CHANGED, actor)
    return len(groups)


def _check_movable(rows: Sequence[Reservation]) -> None:
    waiting = next((one for one in rows if one.state != State.CONFIRMED), None)
    if waiting is not None:
        sentence = _("%(number)s is %(state)s: the series can be changed once it is confirmed.")
        raise StateConflict(sentence % {"number": waiting.number, "state": waiting.get_state_display()})


def _windows(groups: Sequence[Group], clock: Clock) -> list[DateTimeTZRange]:
    """One for each occurrence; hours that are a question are asked about, never shifted."""
    windows, questions = [], {}
    for group in groups:
        date = group[0].occurrence
        assert date is not None
        try:
            windows.append(clock.window_on(date))
        except ReservationRefused as refusal:
            if "zone" not in refusal.evidence:
                raise
            questions[date] = refusal
    if questions:
        raise refused_for(questions, len(groups), status=422)
    return windows


def _check_price(series: Series, actor: User, groups: Sequence[Group], windows: Sequence[DateTimeTZRange]) -> None:
    """What costs more than what was promised, and more than the threshold, is a lead's to change."""
    promised = sum(one.price_slice_seconds for group in groups for one in group)
    asked = sum(price_of(_request(actor, group, during), during)
                for group, during in zip(groups, windows, strict=True))  # fmt: skip
    threshold = threshold_for(actor, series.tenant, asked)
    if threshold is None or asked <= promised:
        return
    shown = {"asked": slice_hours(asked, up=True), "threshold": slice_hours(threshold), "tenant": series.tenant}
    sentence = _("This would cost %(asked)s slice-h; above %(threshold)s a lead of %(tenant)s changes the series.")
    raise PolicyRefused(sentence % shown, {"asked_slice_seconds": asked, "threshold_slice_seconds": threshold})


def _request(actor: User, group: Group, during: DateTimeTZRange) -> Request:
    first = group[0]
    return Request(
        created_by=actor, owner=first.owner, tenant=first.tenant, pool=first.pool, profile=first.profile,
        ranks=first.ranks, during=during, instead_of=first, people=len(group))  # fmt: skip


def _replace_all(actor: User, groups: Sequence[Group], windows: Sequence[DateTimeTZRange], now: dt.datetime) -> None:
    """Their old leases are withdrawn: each is checked and placed anew, those before it already standing."""
    refused: dict[dt.date, ReservationRefused] = {}
    for group, during in zip(groups, windows, strict=True):
        try:
            _replace(_request(actor, group, during), group, now)
        except ReservationRefused as refusal:
            assert group[0].occurrence is not None
            refused[group[0].occurrence] = refusal
    if refused:
        raise refused_for(refused, len(groups))
    for reservation in (one for group in groups for one in group):
        freeze_now(reservation, now)
    touch_pool(groups[0][0].pool_id)


def _replace(request: Request, group: Group, now: dt.datetime) -> None:
    promote_own(request)
    allowed = check_request(request, now)
    others = [one.owner for one in group[1:]]
    check_shares(request, others, policy_of(request.tenant), now, held_in(request.during))
    claimed = find_place(replace(request, ranks=request.ranks * request.people, people=1), allowed, now)
    make_way(claimed, by=group[0], now=now)
    Reservation.objects.filter(pk__in=[one.pk for one in group]).update(
        during=allowed.during, borrowed=allowed.borrowed
    )
    for one in group:
        before, one.during, one.borrowed = one.during, allowed.during, allowed.borrowed
        record_change(
            actor=request.created_by, action="reservation.moved", subject=one.number, tenant_id=one.tenant_id,
            before={"start": before.lower.isoformat(), "end": before.upper.isoformat()},
            after={"start": one.during.lower.isoformat(), "end": one.during.upper.isoformat()})  # fmt: skip
    bind_each(group, request.profile, claimed.placements)


def add_person(*, series: Series, person: User, actor: User) -> int:
    """Put somebody on the roster, with a place in every occurrence that has not begun, or in none; returns how many."""
    return retried(series.pool, lambda: _add(series, person, actor))


def _add(series: Series, person: User, actor: User) -> int:
    lock_pool(series.pool_id)
    lock_budgets(series.tenant)
    _check_may_add(series, person, actor)
    rows = ahead_of(series)
    windows = {one.occurrence: one.during for one in reversed(rows)}
    if not windows:
        raise StateConflict(_("%(name)s has nothing left to take part in.") % {"name": series.name})
    waiting = next((one for one in rows if one.approval_id and one.state == State.REQUESTED), None)
    occurrences = [Occurrence(date, windows[date]) for date in sorted(filter(None, windows))]
    asked = _asked(series, person, actor)
    made = book_occurrences(asked, series, occurrences, waiting.approval if waiting else None, timezone.now())
    series.roster.add(person)
    record_change(
        actor=actor, action="series.person_added", subject=series_subject(series), tenant_id=series.tenant_id,
        after={"person": person.pk, "reservations": len(made)})  # fmt: skip
    tell_series(series, made, Kind.CONFIRMED if waiting is None else Kind.CHANGED, actor)
    return len(made)


def _check_may_add(series: Series, person: User, actor: User) -> None:
    if not series.roster.exists():
        raise StateConflict(_("%(name)s is one person's own: it has no roster.") % {"name": series.name})
    if series.roster.filter(pk=person.pk).exists():
        raise StateConflict(_("%(person)s is on the roster already.") % {"person": person}, field="person")
    if not may(actor, series.tenant, Role.LEAD):
        raise NoAccess(_("Only a lead of %(tenant)s books for others.") % {"tenant": series.tenant}, field="roster")
    check_people([*series.roster.all(), person], series.tenant)


def _asked(series: Series, person: User, actor: User) -> SeriesAsked:
    draft = WorkloadDraft(**(series.draft | {"command": tuple(series.draft["command"])}))
    return SeriesAsked(
        created_by=actor, owner=person, tenant=series.tenant, pool=series.pool, profile=series.profile,
        ranks=series.ranks, name=series.name, draft=draft, rule=parse_rule(series.rule), first_date=series.first_date,
        clock=clock_of(series), roster=(person,))  # fmt: skip
