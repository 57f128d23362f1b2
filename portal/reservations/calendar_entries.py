"""What a feed shows: reservations and maintenance as events, worded for its owner. A few queries, whatever there is."""

import datetime as dt
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu
from portal.quotas.models import Quota
from portal.reservations.models import (
    LIVE,
    UNDER_WAY,
    CalendarFeed,
    EndReason,
    FeedKind,
    Lease,
    Lower,
    Maintenance,
    Reservation,
    State,
)
from portal.reservations.selectors import reservations_of

KEPT = dt.timedelta(days=30)
MOST_EVENTS = 1000  # calendar programs take no more kindly; whatever is ahead comes before what is over
TENTATIVE, CONFIRMED, CANCELLED = "TENTATIVE", "CONFIRMED", "CANCELLED"
STATUS = {
    State.REQUESTED: TENTATIVE, State.QUEUED: TENTATIVE, State.CONFIRMED: CONFIRMED, State.RUNNING: CONFIRMED,
    State.ENDED: CONFIRMED, State.REFUSED: CANCELLED, State.CANCELLED: CANCELLED,
}  # fmt: skip
COLUMNS = (
    "pk", "during", "state", "end_reason", "ended_at", "hold_expires_at", "ranks", "changes", "changed_at",
    "workload__name", "profile__name", "pool__name", "tenant__name", "owner__name",
)  # fmt: skip


class _Row(NamedTuple):
    pk: int
    during: DateTimeTZRange
    state: str
    end_reason: str
    ended_at: dt.datetime | None
    hold_expires_at: dt.datetime | None
    ranks: int
    changes: int
    changed_at: dt.datetime
    name: str
    profile: str
    pool: str
    tenant: str
    owner: str


@dataclass(frozen=True)
class Entry:
    """One event. ``key`` is its own for ever; ``sequence`` rises with every change of the row."""

    key: str
    sequence: int
    changed_at: dt.datetime
    start: dt.datetime
    end: dt.datetime
    status: str
    summary: str
    lines: tuple[str, ...]
    url_name: str
    url_id: int


def entries_of(feed: CalendarFeed, now: dt.datetime) -> list[Entry]:
    """As the owner may see it now: what has ended in the last 30 days, what is under way and what is ahead."""
    since = now - KEPT
    rows = _reservations(feed).filter(
        Q(during__endswith__gt=since, state__in=[*UNDER_WAY, State.ENDED])
        | Q(state__in=[State.CANCELLED, State.REFUSED], ended_at__gt=since)
    )
    whose = feed.kind != FeedKind.USER
    entries = [_reservation(row, whose) for row in _nearest(rows)]
    if whose:
        entries += [_maintenance(row) for row in _maintenances(feed, since)]
    return sorted(entries, key=lambda entry: (entry.start, entry.key))


def _nearest(rows: QuerySet[Reservation]) -> list[_Row]:
    """What is under way and soonest first, then what was over last."""
    ahead = rows.filter(state__in=UNDER_WAY).order_by(Lower("during"), "pk")
    found = list(ahead.values_list(*COLUMNS)[:MOST_EVENTS])
    past = rows.exclude(state__in=UNDER_WAY).order_by(Lower("during").desc(), "pk")
    found += past.values_list(*COLUMNS)[: MOST_EVENTS - len(found)]
    return [_Row(*row) for row in found]


def _reservations(feed: CalendarFeed) -> QuerySet[Reservation]:
    """Through the scoped selector, as the owner of the feed."""
    seen = reservations_of(feed.owner)
    if feed.tenant is not None:
        return seen.filter(tenant__path__startswith=feed.tenant.path)
    if feed.node is not None:
        return seen.filter(Exists(_leases_there(feed.node_id)))
    return seen.filter(owner=feed.owner)


def _leases_there(node_id: int | None) -> QuerySet[Lease]:
    """Of a reservation under way what it holds there now; of one that is over what ran there or, if nothing ever ran,
    what was planned there."""
    here = Lease.objects.filter(reservation=OuterRef("pk"), gpu__node=node_id)
    never_ran = Q(reservation__state__in=[State.CANCELLED, State.REFUSED])
    ran = Q(reservation__state=State.ENDED, starting_at__isnull=False)
    return here.filter(Q(state__in=LIVE) | never_ran | ran)


def _maintenances(feed: CalendarFeed, since: dt.datetime) -> QuerySet[Maintenance]:
    """Of everything, of the node and its pool, or of what the tenant may book from."""
    lasting = Maintenance.objects.filter(during__endswith__gt=since).select_related("node", "pool")
    if feed.node is not None:
        pools = Gpu.objects.filter(node=feed.node_id, pool__isnull=False).values("pool")
        here = Q(node=feed.node_id) | Q(pool__in=pools) | Q(pool=feed.node.pool_id, pool__isnull=False)
    else:
        bookable = Quota.objects.filter(tenant__in=feed.tenant.ancestor_ids if feed.tenant else []).values("pool")
        here = Q(pool__in=bookable) | Q(node__in=Gpu.objects.filter(pool__in=bookable).values("node"))
    return lasting.filter(here | Q(node__isnull=True, pool__isnull=True)).order_by("-during", "pk")[:MOST_EVENTS]


def _reservation(row: _Row, whose: bool) -> Entry:
    size = f"{row.ranks} × {row.profile}" if row.ranks > 1 else row.profile
    start, end, status = _held(row)
    return Entry(
        key=f"reservation-{row.pk}",
        sequence=row.changes,
        changed_at=row.changed_at,
        start=start,
        end=end,
        status=status,
        summary=" · ".join([row.name, size, *([row.owner] if whose else [])]),
        lines=(f"R-{row.pk} · {_state(row)}", f"{row.pool} · {size}", f"{row.tenant} · {row.owner}"),
        url_name="reservation",
        url_id=row.pk,
    )


def _held(row: _Row) -> tuple[dt.datetime, dt.datetime, str]:
    """The time that it holds or has held. What ended before it began is cancelled in the eyes of a calendar."""
    start, end, status = row.during.lower, row.during.upper, STATUS[State(row.state)]
    if row.state != State.ENDED or row.ended_at is None:
        return start, end, status
    if row.ended_at <= start:
        return start, end, CANCELLED
    return start, min(end, row.ended_at), status


def _state(row: _Row) -> str:
    if row.state == State.QUEUED and row.hold_expires_at is None:
        return _("waits for a place, the time is an estimate")
    return str(EndReason(row.end_reason).label) if row.end_reason else str(State(row.state).label)


def _maintenance(row: Maintenance) -> Entry:
    over = row.ended_at or row.ends_at
    cancelled = row.cancelled_at is not None or over <= row.starts_at
    of = str(row.node or row.pool or _("everything"))
    return Entry(
        key=f"maintenance-{row.pk}",
        sequence=row.changes,
        changed_at=row.changed_at,
        start=row.starts_at,
        end=row.ends_at if cancelled else min(row.ends_at, over),
        status=CANCELLED if cancelled else CONFIRMED,
        summary=_("Maintenance: %(what)s") % {"what": of},
        lines=(row.reason,),
        url_name="maintenance_one",
        url_id=row.pk,
    )
