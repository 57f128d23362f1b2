"""Booking a series: every occurrence by the rules of a single reservation, all of them in one transaction or none."""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec
from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal import events
from portal.audit.services import record_change
from portal.inventory.models import Gpu, Pool
from portal.notices.models import Kind
from portal.notices.services import notify
from portal.quotas.policies import policy_of
from portal.reservations.booking import claim_key, digest_of, find_place, lock_budgets, lock_pool, retried
from portal.reservations.borrowing import promote_own
from portal.reservations.ending import lock_reservations
from portal.reservations.errors import ReservationRefused
from portal.reservations.giving_way import make_way
from portal.reservations.models import LIVE, Approval, IdempotencyKey, Lease, Reservation, Series, State
from portal.reservations.questions import ask_approval
from portal.reservations.rebinding import bind_each, freeze_now, lock_nodes
from portal.reservations.request import Request
from portal.reservations.rules import Allowed, check_request
from portal.reservations.series_asked import (
    SeriesAsked,
    check_asked,
    check_shares,
    held_in,
    planned,
    refused_for,
)
from portal.reservations.series_dates import Occurrence
from portal.reservations.telling import leads_of
from portal.workloads.drafts import workloads_from


def book_series(asked: SeriesAsked, *, skip: Collection[dt.date] = (), key: str = "") -> Series:
    """Book every occurrence that ``skip`` does not name, for everybody, or raise and store nothing.

    What is skipped becomes an exception of the series. All of it together is one price for the approval threshold, and
    one question. The same ``key`` by the same person books once. Locks the pool, then the budgets from root to leaf.
    """
    digest = _digest(asked, skip)
    return retried(asked.pool, lambda: _book_once(asked, skip, key, digest))


def _digest(asked: SeriesAsked, skip: Collection[dt.date]) -> str:
    wanted = ["series", asked.tenant.pk, asked.pool.pk, asked.profile.pk, asked.ranks, asked.name, str(asked.rule)]
    wanted += [str(asked.first_date), repr(asked.clock), msgspec.to_builtins(asked.draft)]
    wanted += [[person.pk for person in asked.people], sorted(map(str, {*asked.exceptions, *skip}))]
    return digest_of(wanted)


def _book_once(asked: SeriesAsked, skip: Collection[dt.date], key: str, digest: str) -> Series:
    earlier = claim_key(asked.created_by, key, digest)
    if earlier is not None and earlier.series is not None:
        earlier.series.was_booked_before = True
        return earlier.series
    series, made = _book(asked, skip)
    if key:
        IdempotencyKey.objects.filter(user=asked.created_by, key=key).update(reservation=made[0])
    return series


def _book(asked: SeriesAsked, skip: Collection[dt.date]) -> tuple[Series, list[Reservation]]:
    lock_pool(asked.pool.pk)
    lock_budgets(asked.tenant)
    now = timezone.now()
    check_asked(asked)
    occurrences = planned(asked, skip, now)
    windows = [one.during for one in occurrences if one.during is not None]
    price = asked.price_of(windows)
    approval = ask_approval(asked.created_by, asked.tenant, price, windows[0], now)
    series = _write_series(asked, skip)
    made = book_occurrences(asked, series, occurrences, approval, now)
    record_change(
        actor=asked.created_by, action="series.booked" if approval is None else "series.requested",
        subject=series_subject(series), tenant_id=asked.tenant.pk,
        after={
            "rule": series.rule, "first_date": str(asked.first_date), "occurrences": len(occurrences),
            "people": [person.pk for person in asked.people], "price_slice_seconds": price,
        },
    )  # fmt: skip
    tell_series_booked(asked, series, made, approval, now)
    return series, made


def series_subject(series: Series) -> str:
    return f"S-{series.pk} {series.name}"


def _write_series(asked: SeriesAsked, skip: Collection[dt.date]) -> Series:
    series = Series.objects.create(
        tenant=asked.tenant, owner=asked.owner, created_by=asked.created_by, pool=asked.pool, profile=asked.profile,
        ranks=asked.ranks, name=asked.name, draft=msgspec.to_builtins(asked.draft), rule=str(asked.rule),
        time_zone=asked.clock.zone.key, first_date=asked.first_date, opens=asked.clock.opens,
        closes=asked.clock.closes, days=asked.clock.days, exceptions=sorted({*asked.exceptions, *skip}),
    )  # fmt: skip
    series.roster.set(asked.roster)
    return series


def book_occurrences(
    asked: SeriesAsked,
    series: Series,
    occurrences: Sequence[Occurrence],
    approval: Approval | None,
    now: dt.datetime,
) -> list[Reservation]:
    """Every occurrence or none, each with a place for all people. Call under the locks of the pool and the budgets.

    An occurrence is checked with those before it already written: they count together against quotas and budgets.
    """
    lock_who_may_give_way(asked.pool, [one.during for one in occurrences if one.during is not None])
    made: list[Reservation] = []
    refused: dict[dt.date, ReservationRefused] = {}
    for one in occurrences:
        if one.during is None:
            continue
        request = asked.request_in(one.during)
        try:
            made += _book_occurrence(asked, series, one.date, request, approval, now)
        except ReservationRefused as refusal:
            refused[one.date] = refusal
    if refused:
        raise refused_for(refused, len(occurrences))
    for reservation in made:
        freeze_now(reservation, now)
    return made


def lock_who_may_give_way(pool: Pool, windows: Sequence[DateTimeTZRange]) -> None:
    """All who borrow in any of the windows, and then every node of the pool, so that claims made one after the other
    keep to the order of locks."""
    around = DateTimeTZRange(min(one.lower for one in windows), max(one.upper for one in windows), "[)")
    leases = Lease.objects.select_for_update(no_key=True, of=("self",)).filter(
        reservation__pool=pool, reservation__borrowed=True, state__in=LIVE, during__overlap=around)  # fmt: skip
    found = list(leases.order_by("pk").values_list("reservation_id", flat=True))
    if found:
        lock_reservations(found)
        lock_nodes(Gpu.objects.filter(pool=pool).values_list("pk", flat=True))


def _book_occurrence(
    asked: SeriesAsked, series: Series, date: dt.date, request: Request, approval: Approval | None, now: dt.datetime
) -> list[Reservation]:
    promote_own(request)
    allowed = check_request(request, now)
    check_shares(request, asked.people[1:], policy_of(asked.tenant), now, held_in(request.during))
    claimed = find_place(replace(request, ranks=request.ranks * request.people, people=1), allowed, now)
    reservations = _write(asked, series, date, allowed, approval, now)
    make_way(claimed, by=reservations[0], now=now)
    bind_each(reservations, asked.profile, claimed.placements)
    for one in reservations:
        _record(one, asked, allowed)
    return reservations


def _write(
    asked: SeriesAsked,
    series: Series,
    date: dt.date,
    allowed: Allowed,
    approval: Approval | None,
    now: dt.datetime,
) -> list[Reservation]:
    workloads = workloads_from(asked.draft, asked.tenant, len(asked.people))
    return Reservation.objects.bulk_create(
        Reservation(
            tenant=asked.tenant,
            owner=person,
            pool=asked.pool,
            profile=asked.profile,
            workload=workload,
            ranks=asked.ranks,
            weight=asked.profile.weight,
            during=allowed.during,
            borrowed=allowed.borrowed,
            state=State.REQUESTED if approval else State.CONFIRMED,
            approval=approval,
            hold_expires_at=approval.expires_at if approval else None,
            series=series,
            occurrence=date,
            created_by=asked.created_by,
            created_at=now,
        )
        for person, workload in zip(asked.people, workloads, strict=True)
    )


def _record(reservation: Reservation, asked: SeriesAsked, allowed: Allowed) -> None:
    record_change(
        actor=asked.created_by,
        action="reservation.booked" if reservation.state == State.CONFIRMED else "reservation.requested",
        subject=reservation.number,
        tenant_id=asked.tenant.pk,
        after={
            "profile": asked.profile.name, "pool": asked.pool.name, "ranks": asked.ranks,
            "start": allowed.during.lower.isoformat(), "end": allowed.during.upper.isoformat(),
            "owner": reservation.owner_id, "borrowed": allowed.borrowed, "series": reservation.series_id,
        },
    )  # fmt: skip


def tell_series_booked(
    asked: SeriesAsked, series: Series, made: Sequence[Reservation], approval: Approval | None, now: dt.datetime
) -> None:
    """One notice for the whole series: a question to the leads, or to each owner that it is theirs."""
    first = made[0]
    facts = {
        "name": series.name, "tenant_id": series.tenant_id, "starts_at": first.during.lower,
        "ends_at": first.during.upper,
    }  # fmt: skip
    if approval is not None:
        notify(
            users=leads_of(series.tenant), kind=Kind.APPROVAL_WANTED, reservation_id=first.pk,
            by=str(asked.created_by), price_slice_seconds=approval.price_slice_seconds,
            expires_at=approval.expires_at, **facts)  # fmt: skip
    else:
        soon = first.during.lower <= now + settings.CONFIRM_BY_NOTICE_AFTER
        told = [person for person in asked.people if not soon or person.pk != asked.created_by.pk]
        notify(users=told, kind=Kind.CONFIRMED, url=reverse("series_one", args=[series.pk]), **facts)
    events.tell_tenant_on_commit(series.tenant_id, "reservation.changed", reservation=first.pk)
