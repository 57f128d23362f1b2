"""Booking, giving back and what an agent's reports change, against the real database."""

import dataclasses
import datetime as dt

import pytest
from django.db import IntegrityError, InternalError, transaction
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange, NumericRange

from agents.protocol import LeaseEvent, PresentSlice, Report, event_id
from portal.ledger.models import LedgerEntry
from portal.reservations.agent_reports import apply_report
from portal.reservations.booking import book_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.dispatch import desired_document
from portal.reservations.errors import (
    CountRefused,
    IdempotencyConflict,
    NoAccess,
    NoCapacity,
    QuotaExceeded,
    StateConflict,
    WindowRefused,
)
from portal.reservations.models import Lease, QuarantinedEvent, Reservation
from portal.reservations.sweeps import end_overdue, freeze_due, mark_silent_nodes, nodes_behind
from portal.workloads.drafts import WorkloadDraft
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_user, profile_of

pytestmark = pytest.mark.django_db
HOUR = dt.timedelta(hours=1)
RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))


@pytest.fixture
def place():
    root, team, below = make_org()
    pool = make_pool_with_gpus("H100", 1)
    make_quota(root, pool, 7)
    return {"tenant": team, "pool": pool, "owner": make_user(tenant=team), "root": root}


def book(place, profile="1g.10gb", ranks=1, start=None, hours=1.0, **more):
    start = start or timezone.now()
    return book_reservation(
        created_by=place["owner"],
        owner=place["owner"],
        tenant=place["tenant"],
        pool=place["pool"],
        profile=profile_of(place["pool"], profile),
        ranks=ranks,
        during=DateTimeTZRange(start, start + hours * HOUR, "[)"),
        **({"workload": RUN} | more),
    )


def tell(lease, kind, at, **more):
    event = LeaseEvent(event_id(lease.pk, kind), lease.pk, kind, at.timestamp(), **more)
    node = lease.gpu.node
    node.refresh_from_db()
    return apply_report(node.pk, Report(node.generation, (), (event,), ()), timezone.now())


def test_a_booking_for_now_is_frozen_and_in_the_desired_document(place):
    reservation = book(place, "3g.40gb")
    lease = reservation.leases.get()
    document = desired_document(lease.gpu.node_id)
    assert lease.frozen_at is not None
    assert document.generation == 1
    assert [(each.lease_id, each.start, each.size) for each in document.leases] == [(lease.pk, lease.span.lower, 4)]


def test_a_booking_for_tomorrow_is_not_handed_out_until_it_is_frozen(place):
    start = timezone.now() + 24 * HOUR
    lease = book(place, start=start).leases.get()
    assert desired_document(lease.gpu.node_id).leases == ()
    assert freeze_due(now=start - 3 * HOUR) == 0
    assert freeze_due(now=start - HOUR) == 1
    assert [each.lease_id for each in desired_document(lease.gpu.node_id).leases] == [lease.pk]
    assert nodes_behind() == [lease.gpu.node_id]


def test_all_ranks_are_booked_or_none(place):
    assert book(place, "1g.10gb", ranks=7).leases.count() == 7
    with pytest.raises(QuotaExceeded):
        book(place, "1g.10gb")
    make_quota(place["tenant"], place["pool"], 99)
    place["root"].quotas.update(limit=99)
    with pytest.raises(NoCapacity):
        book(place, "1g.10gb", ranks=2)
    assert Lease.objects.count() == 7


@pytest.mark.case("Q-06")
def test_a_quota_that_is_exactly_used_up_is_accepted(place):
    book(place, "4g.40gb")
    book(place, "3g.40gb")
    with pytest.raises(QuotaExceeded) as refused:
        book(place, "1g.10gb")
    assert refused.value.evidence == {"tenant": "northquay", "limit": 7, "held": 7, "asked": 1}


@pytest.mark.case("V-14")
def test_back_to_back_windows_on_the_same_slices_are_accepted(place):
    start = timezone.now() + HOUR
    book(place, "7g.80gb", start=start)
    book(place, "7g.80gb", start=start + HOUR)
    with pytest.raises(QuotaExceeded):
        book(place, "7g.80gb", start=start + HOUR / 2)


@pytest.mark.parametrize("ranks", [0, -1, 65, 10**18])
@pytest.mark.case("R-19", "Q-07")
def test_counts_out_of_range_are_refused(place, ranks):
    with pytest.raises(CountRefused):
        book(place, ranks=ranks)


@pytest.mark.parametrize(("start", "hours"), [(-2, 1), (0, 0.01), (0, 24 * 400), (24 * 90, 1)])
@pytest.mark.case("R-01", "V-11", "V-13")
def test_windows_in_the_past_too_short_too_long_or_too_far_are_refused(place, start, hours):
    with pytest.raises(WindowRefused):
        book(place, start=timezone.now() + start * HOUR, hours=hours)
    assert not Reservation.objects.exists()


@pytest.mark.case("V-1")
def test_who_is_no_member_books_nothing(place):
    place["owner"] = make_user()
    with pytest.raises(NoAccess):
        book(place)


@pytest.mark.case("V-1")
def test_without_a_quota_on_the_way_up_there_is_no_access(place):
    place["root"].quotas.all().delete()
    with pytest.raises(NoAccess):
        book(place)


def test_the_same_key_books_once_and_another_request_under_it_is_refused(place):
    start = timezone.now() + HOUR
    first = book(place, start=start, key="k1")
    assert book(place, start=start, key="k1") == first
    with pytest.raises(IdempotencyConflict):
        book(place, start=start, hours=2, key="k1")
    with pytest.raises(IdempotencyConflict):
        book(place, start=start, key="k1", workload=dataclasses.replace(RUN, grace_seconds=1))
    assert Reservation.objects.count() == 1


def test_a_lease_runs_from_active_to_freed_and_the_ledger_holds_its_seconds(place):
    reservation = book(place)
    lease = reservation.leases.get()
    start = lease.during.lower
    tell(lease, "starting", start)
    tell(lease, "active", start, mig_uuid="MIG-1")
    tell(lease, "active", start, mig_uuid="MIG-1")  # told twice: one row
    reservation.refresh_from_db()
    assert reservation.state == "running"
    tell(lease, "freed", timezone.now(), reason="exited", exit_code=3, detail="exit 3", log_tail="last words")
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason, reservation.end_detail) == ("ended", "failed", "exit 3")
    assert list(LedgerEntry.objects.values_list("kind", flat=True)) == ["opened", "closed"]
    assert lease.log.tail == "last words"


@pytest.mark.case("R-22")
def test_the_ledger_closes_at_the_windows_end_however_late_the_report(place):
    lease = book(place, hours=0.02).leases.get()
    tell(lease, "active", lease.during.lower)
    late = lease.during.upper + 3 * HOUR
    event = LeaseEvent(event_id(lease.pk, "freed"), lease.pk, "freed", late.timestamp(), reason="window_over")
    apply_report(lease.gpu.node_id, Report(1, (), (event,), ()), late)
    assert LedgerEntry.objects.get(kind="closed").at == lease.during.upper


@pytest.mark.case("R-15", "R-17")
def test_release_holds_the_span_until_the_agent_says_free(place):
    reservation = book(place, "7g.80gb")
    lease = reservation.leases.get()
    tell(lease, "active", lease.during.lower)
    release_reservation(reservation=reservation, actor=place["owner"])
    lease.refresh_from_db()
    assert lease.state == "stopping"
    with pytest.raises(QuotaExceeded):
        book(place, "7g.80gb")
    with pytest.raises(StateConflict, match="is being stopped already"):
        release_reservation(reservation=reservation, actor=place["owner"])
    tell(lease, "freed", timezone.now(), reason="withdrawn")
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason) == ("ended", "released")
    book(place, "7g.80gb")  # the rest is bookable at once


def test_a_cancelled_frozen_lease_is_free_once_the_agent_has_seen_it_go(place):
    reservation = release_reservation(reservation=book(place), actor=place["owner"])
    lease = reservation.leases.get()
    assert (reservation.state, lease.state) == ("cancelled", "stopping")
    apply_report(lease.gpu.node_id, Report(lease.withdrawn_generation - 1, (), (), ()), timezone.now())
    lease.refresh_from_db()
    assert lease.state == "stopping"
    shown = PresentSlice(lease.gpu.uuid, lease.span.lower, 1, "MIG-1", lease.pk)
    apply_report(lease.gpu.node_id, Report(lease.withdrawn_generation, (shown,), (), ()), timezone.now())
    lease.refresh_from_db()
    assert lease.state == "stopping"
    apply_report(lease.gpu.node_id, Report(lease.withdrawn_generation, (), (), ()), timezone.now())
    lease.refresh_from_db()
    assert lease.state == "ended"


def test_a_cancelled_later_lease_is_free_although_another_holds_its_slices_now(place):
    now = book(place, "7g.80gb").leases.get()
    later = book(place, "7g.80gb", start=now.during.upper)
    release_reservation(reservation=later, actor=place["owner"])
    lease = later.leases.get()
    shown = PresentSlice(now.gpu.uuid, now.span.lower, 8, "MIG-1", now.pk)
    apply_report(now.gpu.node_id, Report(lease.withdrawn_generation, (shown,), (), ()), timezone.now())
    lease.refresh_from_db()
    assert lease.state == "ended"
    book(place, "7g.80gb", start=now.during.upper)


def test_events_that_cannot_be_true_are_put_in_quarantine(place):
    lease = book(place, start=timezone.now() + HOUR).leases.get()
    early = tell(lease, "active", timezone.now())
    forged = LeaseEvent("made-up", lease.pk, "active", lease.during.lower.timestamp())
    unknown = LeaseEvent(event_id(10**9, "active"), 10**9, "active", 1.0)
    done = apply_report(lease.gpu.node_id, Report(1, (), (forged, unknown), ()), timezone.now())
    lease.refresh_from_db()
    assert early and done == [forged.id, unknown.id]
    assert (lease.state, QuarantinedEvent.objects.count(), LedgerEntry.objects.count()) == ("planned", 3, 0)


@pytest.mark.case("R-22", "A-06")
def test_overdue_leases_are_withdrawn_and_a_start_that_never_came_is_named(place):
    reservation = book(place, hours=0.02)
    lease = reservation.leases.get()
    assert end_overdue(now=lease.during.upper + dt.timedelta(days=3)) == 1
    lease.refresh_from_db()
    assert lease.state == "stopping"
    apply_report(lease.gpu.node_id, Report(lease.withdrawn_generation, (), (), ()), timezone.now())
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason) == ("ended", "no_show")


def test_a_window_that_passed_before_the_agent_could_start_is_no_completed_one(place):
    reservation = book(place, hours=0.02)
    lease = reservation.leases.get()
    apply_report(lease.gpu.node_id, Report(1, (), (_freed(lease),), ()), lease.during.upper)
    reservation.refresh_from_db()
    assert (reservation.state, reservation.end_reason) == ("ended", "no_show")


def _freed(lease):
    at = lease.during.upper.timestamp()
    return LeaseEvent(event_id(lease.pk, "freed"), lease.pk, "freed", at, reason="window_over")


def test_a_stop_that_its_agent_forgot_is_over_once_a_report_shows_nothing_of_it(place):
    lease = book(place).leases.get()
    tell(lease, "active", lease.during.lower)
    tell(lease, "stopping", timezone.now())
    later = timezone.now() + dt.timedelta(minutes=10)
    assert (end_overdue(), end_overdue(now=later), end_overdue(now=later)) == (0, 1, 0)
    lease.refresh_from_db()
    shown = PresentSlice(lease.gpu.uuid, lease.span.lower, 1, "MIG-1", None)
    for present, state in (((shown,), "stopping"), ((), "ended")):
        apply_report(lease.gpu.node_id, Report(lease.withdrawn_generation, present, (), ()), later)
        lease.refresh_from_db()
        assert lease.state == state


def test_a_gang_whose_last_rank_is_stopping_cannot_be_released_again(place):
    reservation = book(place, ranks=2)
    first, second = reservation.leases.order_by("rank")
    for lease in (first, second):
        tell(lease, "active", lease.during.lower)
    tell(first, "freed", timezone.now(), reason="exited")
    tell(second, "stopping", timezone.now())
    with pytest.raises(StateConflict):
        release_reservation(reservation=reservation, actor=place["owner"])


def test_a_silent_node_takes_no_bookings_and_frees_nothing(place):
    lease = book(place).leases.get()
    node = lease.gpu.node
    assert mark_silent_nodes(now=timezone.now() + dt.timedelta(minutes=5)) == 1
    lease.refresh_from_db()
    assert lease.state == "planned"
    with pytest.raises(NoCapacity):
        book(place, "1g.10gb")
    apply_report(node.pk, Report(1, (), (), ()), timezone.now())
    book(place, "1g.10gb")


def test_the_database_refuses_two_leases_on_one_slice_and_windows_that_are_none(place):
    lease = book(place).leases.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        Lease.objects.create(
            reservation=lease.reservation, rank=9, gpu=lease.gpu, span=NumericRange(0, 8), during=lease.during
        )
    for during in (DateTimeTZRange(empty=True), DateTimeTZRange(lease.during.lower, None)):
        with pytest.raises(IntegrityError), transaction.atomic():
            Lease.objects.filter(pk=lease.pk).update(during=during)


def test_the_ledger_takes_no_update_and_no_delete(place):
    lease = book(place).leases.get()
    tell(lease, "active", lease.during.lower)
    for change in (lambda: LedgerEntry.objects.update(weight=0), lambda: LedgerEntry.objects.all().delete()):
        with pytest.raises((InternalError, IntegrityError)), transaction.atomic():
            change()
