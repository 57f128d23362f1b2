"""Reserved, running and used slice-time of a tenant and everything below it, by day, person and reservation.

Running comes from the ledger alone. Reserved is the window as last agreed, of every reservation that had a place:
also of one that was released early or never started, so that the difference shows. Used is what was measured.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from django.db.models import DateTimeField, Exists, F, Func, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import TruncDate
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.ledger.folding import Day, Fact, days_met, seconds_by_day, seconds_within, stretches
from portal.ledger.models import Kind, LedgerEntry
from portal.live.models import UseBucket
from portal.reports.figures import Figures, measured, total
from portal.reports.periods import Span
from portal.reports.usage_rows import Claim, Row, Usage
from portal.reservations.models import EndReason, Lease, Reservation, State, Upper
from portal.tenants.models import Tenant

HAD_A_PLACE = [State.CONFIRMED, State.RUNNING, State.ENDED]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


Cell = tuple[int, dt.date]
Key = TypeVar("Key", bound=Hashable)


def usage_of(tenant: Tenant, span: Span, now: dt.datetime) -> Usage:
    """Add everything up for these days; five queries, whatever the number of rows."""
    days = span.days
    cells: dict[Cell, Figures] = defaultdict(Figures)
    claims = _add_reserved(cells, tenant, days, now)
    _add_held(cells, claims, tenant, span, now)
    people = User.objects.in_bulk({claim.owner_id for claim in claims.values()})
    by_day = _grouped(cells, lambda cell: cell[1])
    by_pair = _grouped(cells, lambda cell: (claims[cell[0]].owner_id, cell[1]))
    reservations = [_row(claims[key], figures) for key, figures in _grouped(cells, lambda cell: cell[0]).items()]
    return Usage(
        total=total(cells.values()),
        by_day=[(day, by_day.get(day.date, Figures())) for day in days],
        by_member=_members(reservations, claims, people),
        by_reservation=reservations,
        by_member_and_day=sorted(
            ((people[owner], date, figures) for (owner, date), figures in by_pair.items()),
            key=lambda row: (row[1], str(row[0]), row[0].pk),
        ),
        people=people,
        claims=claims,
    )


def _grouped(cells: dict[Cell, Figures], key: Callable[[Cell], Key]) -> dict[Key, Figures]:
    groups: dict[Key, Figures] = defaultdict(Figures)
    for cell, figures in cells.items():
        groups[key(cell)] += figures
    return groups


def _row(claim: Claim, figures: Figures) -> Row:
    released = figures.not_running if claim.end_reason == EndReason.RELEASED and figures.running else 0
    never = figures.not_running if claim.end_reason and not figures.running else 0
    return Row(claim.reservation_id, claim.name, figures, released, never)


def _members(rows: list[Row], claims: dict[int, Claim], names: dict[int, User]) -> list[Row]:
    people: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        people[claims[row.key].owner_id].append(row)
    members = [
        Row(owner, str(names[owner]), total(row.figures for row in theirs),
            sum(row.released for row in theirs), sum(row.never_started for row in theirs))
        for owner, theirs in people.items()
    ]  # fmt: skip
    return sorted(members, key=lambda member: (-member.figures.reserved, member.label))


def _add_reserved(
    cells: dict[Cell, Figures], tenant: Tenant, days: Sequence[Day], now: dt.datetime
) -> dict[int, Claim]:
    claims: dict[int, Claim] = {}
    rows = Reservation.objects.filter(
        tenant__path__startswith=tenant.path, state__in=HAD_A_PLACE,
        during__overlap=DateTimeTZRange(days[0].since, days[-1].until),
    ).values_list("pk", "owner_id", "workload__name", "end_reason", "during", "weight", "ranks", "state")  # fmt: skip
    for pk, owner_id, name, reason, during, weight, ranks, state in rows:
        claims[pk] = Claim(pk, owner_id, name, reason)
        for day in days_met(during.lower, during.upper, days):
            agreed = weight * ranks * seconds_within(during.lower, during.upper, day)
            ahead = weight * ranks * seconds_within(max(during.lower, now), during.upper, day)
            cells[pk, day.date] += Figures(reserved=agreed, committed=0 if state == State.ENDED else ahead)
    return claims


def _add_held(
    cells: dict[Cell, Figures], claims: dict[int, Claim], tenant: Tenant, span: Span, now: dt.datetime
) -> None:
    days = span.days
    facts, leases, window_ends = [], {}, {}
    for lease_id, reservation_id, user_id, weight, kind, at, seconds, window_end in _ledger_rows(tenant, days):
        facts.append(Fact(lease_id, kind, at, seconds))
        leases[lease_id] = (reservation_id, user_id, weight)
        window_ends[lease_id] = window_end
    held = seconds_by_day(stretches(facts, now, window_ends), days)
    used = _measured_use(tenant, span)
    _name_strays(claims, {reservation: user for reservation, user, _ in leases.values()})
    for (lease_id, date), seconds in held.items():
        reservation_id, _user, weight = leases[lease_id]
        cells[reservation_id, date] += measured(seconds, *used.get((lease_id, date), (0, 0)), weight)


def _name_strays(claims: dict[int, Claim], owners: dict[int, int]) -> None:
    """What held its slices past its window, or was corrected later, has rows on days where nothing was reserved."""
    missing = {pk: owner for pk, owner in owners.items() if pk not in claims}
    if missing:
        names = Reservation.objects.filter(pk__in=missing).values_list("pk", "workload__name", "end_reason")
        known = {pk: (name, reason) for pk, name, reason in names}
        for pk, owner in missing.items():
            name, reason = known.get(pk, (f"R-{pk}", ""))
            claims[pk] = Claim(pk, owner, name, reason)


def _ledger_rows(tenant: Tenant, days: Sequence[Day]) -> QuerySet:
    """Entries of every lease that held something in these days, and the corrections made in them; each with the end of
    the lease's window."""
    since, until = days[0].since, days[-1].until
    rows = LedgerEntry.objects.filter(tenant__path__startswith=tenant.path)
    closed = LedgerEntry.objects.filter(lease_id=OuterRef("lease_id"), kind=Kind.CLOSED).values("at")[:1]
    opened = rows.filter(kind=Kind.OPENED, at__lt=until).annotate(closed_at=Subquery(closed))
    held = opened.filter(Q(closed_at__isnull=True) | Q(closed_at__gt=since)).values("lease_id")
    wanted = Q(kind__in=[Kind.OPENED, Kind.CLOSED], lease_id__in=held) | Q(
        kind=Kind.CORRECTED, at__gte=since, at__lt=until
    )
    window_end = Lease.objects.filter(pk=OuterRef("lease_id")).values(end=Upper(F("during")))
    return (
        rows.filter(wanted)
        .annotate(window_end=Subquery(window_end[:1]))
        .values_list("lease_id", "reservation_id", "user_id", "weight", "kind", "at", "seconds", "window_end")
    )


def _measured_use(tenant: Tenant, span: Span) -> dict[tuple[int, dt.date], tuple[int, int]]:
    """Seconds measured and busy milliseconds by lease and day: 5-min means, and 10-s means not rolled up yet."""
    bucket = Func(
        Value("300 seconds"), OuterRef("at"), Value(_EPOCH), output_field=DateTimeField(),
        function="date_bin", template="%(function)s(%(expressions)s)", arg_joiner=", ",
    )  # fmt: skip
    rolled_up = UseBucket.objects.filter(lease=OuterRef("lease"), seconds=300, at=bucket)
    rows = (
        UseBucket.objects.filter(
            lease__reservation__tenant__path__startswith=tenant.path, at__gte=span.since, at__lt=span.until
        )
        .filter(Q(seconds=300) | ~Exists(rolled_up))
        .annotate(day=TruncDate("at", tzinfo=span.zone))
        .values_list("lease_id", "day")
        .annotate(seen=Sum("measured_seconds"), busy=Sum("busy_ms"))
        .order_by()
    )
    return {(lease_id, day): (seen, busy) for lease_id, day, seen, busy in rows}
