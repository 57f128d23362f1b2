"""A tenant with as many of everything as is wanted, to count the queries that its pages ask; never committed."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Gpu, Pool
from portal.notices.models import Kind
from portal.notices.services import notify
from portal.reservations.models import Approval, ChangeMark, LeaseLog, LeaseState, Reservation, Series, State
from portal.reservations.pool_calendar import looking_at
from portal.tenants.models import Invitation, Role, Tenant
from tests.factories import (
    HOUR,
    make_budget,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    record,
    window,
)

SIZES = (1, 25, 200)


@contextmanager
def tenant_with(rows: int) -> Iterator[tuple[User, dict[str, int | str]]]:
    """Its lead, and the ids that addresses need. It has so many sub-tenants, members, invitations, notices, entries of
    the trail, and reservations in several states. Gone at the end."""
    with transaction.atomic():
        tenant = make_tenant("grown", Tenant.objects.get(parent=None))
        lead = make_user("grown-lead", tenant, Role.LEAD)
        pool = make_pool_with_gpus("H100", gpus=rows, nodes=rows, name="grown")
        make_quota(Tenant.objects.get(parent=None), pool, 10_000)
        make_quota(tenant, pool, 10_000)
        make_budget(tenant, 10**12)
        gpus = list(pool.gpus.order_by("pk"))
        for number in range(rows):
            _grow(number, tenant, lead, pool, gpus[number])
        _settle()
        yield lead, _ids(tenant, lead, pool)
        transaction.set_rollback(True)


def _settle() -> None:
    """As after a commit, which never comes: what a transaction has marked itself is read anew at each of its looks."""
    _look()
    ChangeMark.objects.all().delete()
    _look()


def _look() -> None:
    for pool in Pool.objects.all():
        with looking_at(pool, timezone.now()):
            continue


def _ids(tenant: Tenant, lead: User, pool: Pool) -> dict[str, int | str]:
    """Those that are not the newest row of the model of that name."""
    own = lead.reservations.order_by("-pk")[0]
    ended = Reservation.objects.filter(tenant__parent=tenant, state=State.ENDED).order_by("-pk")[0]
    LeaseLog.objects.create(lease=ended.leases.get(), tail="epoch 1")
    return {
        "tenant": tenant.pk, "reservation": own.pk, "ended": ended.pk, "pool": pool.pk, "profile": own.profile_id,
        "user": lead.pk, "node": pool.nodes.all()[0].pk,
        "occurrence": str(Series.objects.latest("pk").first_date),
    }  # fmt: skip


def _grow(number: int, tenant: Tenant, lead: User, pool: Pool, gpu: Gpu) -> None:
    child = make_tenant(f"part-{number}", tenant)
    make_quota(child, pool, 100)
    person = make_user(f"member-{number}", tenant)
    now = timezone.now().replace(microsecond=0)
    Invitation.objects.create(
        tenant=tenant, email=f"invited-{number}@example.org", role=Role.MEMBER, invited_by=lead,
        token_hash=f"{number:064d}", expires_at=now + dt.timedelta(days=1),
    )  # fmt: skip
    held = make_reservation(
        child, pool, "1g.10gb", window(now - 30 * HOUR, 2), places=((gpu, 0),), owner=person, state=State.ENDED,
        lease_state=LeaseState.ENDED,
    )  # fmt: skip
    record(held.leases.get(), "opened", now - 30 * HOUR)
    record(held.leases.get(), "closed", now - 28 * HOUR)
    runs = make_reservation(
        tenant, pool, "1g.10gb", window(now - HOUR, 5), places=((gpu, 1),), owner=lead, state=State.RUNNING,
        lease_state=LeaseState.ACTIVE, frozen_at=now - HOUR,
    )  # fmt: skip
    record(runs.leases.get(), "opened", now - HOUR)
    asked = make_reservation(tenant, pool, "1g.10gb", window(now + 9 * HOUR), places=((gpu, 2),), owner=person)
    approval = Approval.objects.create(
        tenant=tenant, asked_by=person, expires_at=now + 8 * HOUR, price_slice_seconds=7200, threshold_slice_seconds=1
    )
    Reservation.objects.filter(pk=asked.pk).update(
        state=State.REQUESTED, approval=approval, hold_expires_at=now + 8 * HOUR
    )
    _repeat(runs, person)
    notify(users=[lead], kind=Kind.CONFIRMED, reservation_id=runs.pk, tenant_id=tenant.pk, name="training")
    record_change(actor=person, action="reservation.booked", subject=runs.number, tenant_id=tenant.pk)


def _repeat(held: Reservation, also: User) -> None:
    """A series whose one date so far is this reservation, with somebody on its roster."""
    series = Series.objects.create(
        tenant=held.tenant, owner=held.owner, created_by=held.owner, pool=held.pool, profile=held.profile,
        name="course", rule="FREQ=WEEKLY;COUNT=1", time_zone="UTC", first_date=held.during.lower.date(),
        opens=dt.time(9), closes=dt.time(10),
    )  # fmt: skip
    series.roster.set([also])
    Reservation.objects.filter(pk=held.pk).update(series=series, occurrence=series.first_date)


def queries_of(person: User, url: str) -> int:
    """How many queries the page asks, the session and the person among them. The answer has to be the page."""
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(person)
    client.get(url)  # what is cached for the process is not the page's own
    with CaptureQueriesContext(
        connection,
    ) as asked:
        answer = client.get(url)
        if answer.streaming:
            b"".join(answer.streaming_content)
    assert answer.status_code == 200, f"{url} answered {answer.status_code}"
    return sum(1 for query in asked.captured_queries if not query["sql"].startswith(("SAVEPOINT", "RELEASE")))
