"""A house for tests of bookings: northquay > vision-lab > segmentation, one pool, and what people and agents do."""

import datetime as dt

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from agents.protocol import LeaseEvent, Report, event_id
from portal.reservations.agent_reports import apply_report
from portal.reservations.booking import book_reservation
from portal.reservations.models import Lease, Reservation
from portal.reservations.moving import change_window
from portal.tenants.models import Role
from portal.workloads.drafts import WorkloadDraft
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_user, profile_of

RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))
MINUTE = dt.timedelta(minutes=1)


class House:
    """``now`` is a whole second at the moment of making; ``start`` is the noon of the day after tomorrow, by UTC."""

    def __init__(self, gpus: int = 2, nodes: int = 1, limit: int = 1000) -> None:
        self.root, self.team, self.project = make_org()
        self.pool = make_pool_with_gpus("H100", gpus=gpus, nodes=nodes)
        self.quota = make_quota(self.root, self.pool, limit)
        self.admin = make_user("admin", tenant=self.root, role=Role.ADMIN)
        self.lead = make_user("lead", tenant=self.team, role=Role.LEAD)
        self.owner = make_user("owner", tenant=self.team)
        self.now = timezone.now().replace(microsecond=0)
        self.start = self.now.replace(hour=12, minute=0, second=0) + 48 * HOUR

    def book(
        self, profile="1g.10gb", start=None, hours=1.0, *, ranks=1, tenant=None, owner=None, by=None, **more
    ) -> Reservation:
        owner = owner or self.owner
        start = self.start if start is None else start
        return book_reservation(
            created_by=by or owner,
            owner=owner,
            tenant=tenant or self.team,
            pool=self.pool,
            profile=profile_of(self.pool, profile),
            ranks=ranks,
            during=span(start, hours),
            **({"workload": RUN} | more),
        )

    def change(self, reservation: Reservation, start=None, end=None, by=None) -> Reservation:
        during = DateTimeTZRange(start or reservation.during.lower, end or reservation.during.upper, "[)")
        return change_window(reservation=reservation, during=during, actor=by or self.owner)

    def run(self, reservation: Reservation, at: dt.datetime | None = None) -> Reservation:
        """Its agents say that every rank runs."""
        for lease in bound(reservation):
            tell(lease, "active", at or lease.during.lower)
        reservation.refresh_from_db()
        assert reservation.state == "running"
        return reservation


def span(start: dt.datetime, hours: float) -> DateTimeTZRange:
    return DateTimeTZRange(start, start + hours * HOUR, "[)")


def bound(reservation: Reservation) -> list[Lease]:
    """What serves its ranks now, in order of rank."""
    rows = reservation.leases.filter(state__in=["planned", "starting", "active"])
    return list(rows.select_related("gpu__node").order_by("rank"))


def places(reservation: Reservation) -> list[tuple[int, int, int]]:
    return [(lease.gpu_id, lease.span.lower, lease.span.upper) for lease in bound(reservation)]


def windows(reservation: Reservation) -> set[tuple[dt.datetime, dt.datetime]]:
    return {(lease.during.lower, lease.during.upper) for lease in bound(reservation)}


def tell(lease: Lease, kind: str, at: dt.datetime, received_at: dt.datetime | None = None, **more) -> list[str]:
    """The lease's agent reports one event."""
    event = LeaseEvent(event_id(lease.pk, kind), lease.pk, kind, at.timestamp(), **more)
    node = lease.gpu.node
    node.refresh_from_db()
    return apply_report(node.pk, Report(node.generation, (), (event,), ()), received_at or timezone.now())


def observe(lease: Lease) -> None:
    """The lease's agent has seen the newest document and holds nothing."""
    node = lease.gpu.node
    node.refresh_from_db()
    apply_report(node.pk, Report(node.generation, (), (), ()), timezone.now())
