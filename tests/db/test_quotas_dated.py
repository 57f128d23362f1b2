"""Quotas with dates and open hours: what covers a window, how the tree fits at every moment, what a cut uncovers."""

import datetime as dt

import pytest
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.audit.models import AuditEntry
from portal.notices.models import Kind, Notice
from portal.quotas.errors import Duplicate, NotHeld, QuotaRefused
from portal.quotas.hours import Hours, hours_held, without
from portal.quotas.models import OpenHours, Quota
from portal.quotas.selectors import quotas_binding
from portal.quotas.services import remove_quota, set_quota
from portal.reservations.errors import NoAccess, QuotaExceeded
from portal.reservations.models import Lease, LeaseState, Reservation
from portal.reservations.narrowing import change_quota, drop_quota
from portal.reservations.request import Request
from portal.reservations.rules import check_request
from portal.tenants.models import Role
from portal.workloads.drafts import WorkloadDraft
from tests.factories import (
    HOUR,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_user,
    profile_of,
    window,
)

pytestmark = pytest.mark.django_db
DAY = 24 * HOUR
OFFICE = Hours(0b0011111, 540, 1020)


class Town:
    """northquay > vision-lab > segmentation, a pool of two H100, an admin; times count from tomorrow's midnight."""

    def __init__(self) -> None:
        self.root, self.team, self.project = make_org()
        self.pool = make_pool_with_gpus("H100", gpus=2)
        self.admin = make_user(tenant=self.root, role=Role.ADMIN)
        self.owner = make_user(tenant=self.team)
        self.midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) + DAY

    def at(self, days: float) -> dt.datetime:
        return self.midnight + days * DAY

    def days(self, first: float | None, last: float | None) -> DateTimeTZRange:
        bounds = [None if day is None else self.at(day) for day in (first, last)]
        return DateTimeTZRange(*bounds, "[)")

    def set(self, tenant, guaranteed, limit, first=None, last=None, **more) -> Quota:
        return set_quota(actor=self.admin, tenant=tenant, pool=self.pool, guaranteed=guaranteed, limit=limit,
                         valid=self.days(first, last), **more)  # fmt: skip

    def ask(self, during, profile="1g.10gb", tenant=None, ranks=1):
        draft = WorkloadDraft("train", command=("train",))
        request = Request(self.owner, self.owner, tenant or self.team, self.pool, profile_of(self.pool, profile), ranks,
                          during, draft)  # fmt: skip
        return check_request(request, timezone.now()).during

    def hold(self, start_day, tenant=None, profile="1g.10gb", place=0, gpu=0, hours=2, **more) -> Reservation:
        device = self.pool.gpus.all()[gpu]
        return make_reservation(tenant or self.team, self.pool, profile, window(self.at(start_day), hours),
                                places=((device, place),), owner=self.owner, **more)  # fmt: skip


@pytest.fixture
def town():
    return Town()


@pytest.mark.case("V-4")
def test_a_quota_that_ends_within_the_window_is_refused_with_the_part_that_it_does_not_cover(town):
    town.set(town.root, 0, 14, None, 2)
    with pytest.raises(NoAccess) as refused:
        town.ask(DateTimeTZRange(town.at(1), town.at(3), "[)"))
    evidence = refused.value.evidence
    assert (evidence["uncovered_from"], evidence["uncovered_until"]) == (town.at(2).isoformat(), town.at(3).isoformat())
    assert refused.value.message.startswith("northquay has no quota in")
    assert refused.value.field == "end"
    town.ask(DateTimeTZRange(town.at(1), town.at(2), "[)"))


@pytest.mark.case("V-5")
def test_two_quotas_that_meet_cover_a_window_across_the_seam_and_one_second_between_them_does_not(town):
    town.set(town.root, 0, 14, None, 2)
    later = town.set(town.root, 0, 14, 2, None)
    across = DateTimeTZRange(town.at(1.5), town.at(2.5), "[)")
    assert town.ask(across) == across
    Quota.objects.filter(pk=later.pk).update(
        valid=DateTimeTZRange(town.at(2) + dt.timedelta(seconds=1), None, "[)"))  # fmt: skip
    with pytest.raises(NoAccess):
        town.ask(across)


def test_each_row_limits_what_is_held_while_it_is_valid(town):
    town.set(town.root, 0, 14)
    town.set(town.team, 0, 2, None, 2)
    town.set(town.team, 0, 7, 2, None)
    across = DateTimeTZRange(town.at(1.5), town.at(2.5), "[)")
    town.hold(2.1, profile="4g.40gb")
    town.ask(across, "2g.20gb")
    with pytest.raises(QuotaExceeded) as refused:
        town.ask(across, "3g.40gb")
    assert (refused.value.evidence["limit"], refused.value.evidence["held"]) == (2, 0)
    town.ask(DateTimeTZRange(town.at(2), town.at(3), "[)"), "3g.40gb")
    with pytest.raises(QuotaExceeded) as refused:
        town.ask(DateTimeTZRange(town.at(2), town.at(3), "[)"), "4g.40gb")
    assert (refused.value.evidence["limit"], refused.value.evidence["held"]) == (7, 4)


def test_a_tenant_between_without_rows_needs_none(town):
    town.set(town.root, 0, 14)
    town.set(town.project, 0, 4)
    town.ask(DateTimeTZRange(town.at(1), town.at(2), "[)"), tenant=town.project)


@pytest.mark.case("V-4")
def test_a_quota_that_is_over_or_not_there_yet_gives_no_access(town):
    town.set(town.root, 0, 14)
    town.set(town.team, 0, 14, 30, 40)
    with pytest.raises(NoAccess, match="vision-lab has no quota in"):
        town.ask(DateTimeTZRange(town.at(1), town.at(2), "[)"))


def test_those_of_a_window_are_asked_for_and_without_one_all(town):
    first = town.set(town.root, 0, 14, None, 2)
    second = town.set(town.root, 0, 7, 2, None)
    assert quotas_binding(town.team, town.pool) == [first, second]
    assert quotas_binding(town.team, town.pool, town.days(0, 1)) == [first]
    assert quotas_binding(town.team, town.pool, town.days(2, 3)) == [second]


def test_open_hours_cost_a_query_only_where_there_are_any(town, django_assert_num_queries):
    quota = town.set(town.root, 0, 14)
    with django_assert_num_queries(1):
        assert [row.open_hours for row in quotas_binding(town.team, town.pool)] == [[]]
    OpenHours.objects.create(quota=quota, opens=0, closes=60)
    with django_assert_num_queries(2):
        assert len(quotas_binding(town.team, town.pool)[0].open_hours) == 1


def test_rows_of_one_tenant_never_lie_over_each_other(town):
    town.set(town.root, 0, 14, 0, 2)
    for first, last in ((1, 3), (None, None), (0.5, 1), (-1, 0.1)):
        with pytest.raises(Duplicate, match="northquay has a quota in"):
            town.set(town.root, 0, 14, first, last)
    town.set(town.root, 0, 12, 0, 2)
    assert Quota.objects.get().limit == 12
    with pytest.raises(QuotaRefused, match="The end must be after the start"):
        town.set(town.root, 0, 14, 3, 3)


def test_a_row_can_be_given_other_dates(town):
    row = town.set(town.root, 0, 14, 0, 2)
    town.set(town.root, 0, 14, 2, 4)
    with pytest.raises(Duplicate):
        town.set(town.root, 0, 14, 0, 3, quota=row)
    moved = town.set(town.root, 0, 10, -1, 1, quota=row)
    assert moved.pk == row.pk and Quota.objects.get(pk=row.pk).valid == town.days(-1, 1)
    assert AuditEntry.objects.filter(action="quota.set").latest("id").after["valid_until"] == town.at(1).isoformat()
    with pytest.raises(NotHeld):
        set_quota(actor=town.admin, tenant=town.team, pool=town.pool, guaranteed=0, limit=1, quota=row)


def test_guarantees_below_count_together_only_while_they_meet(town):
    town.set(town.root, 0, 14)
    town.set(town.team, 10, 14)
    town.set(town.project, 10, 10, 0, 2)
    town.set(town.project, 4, 10, 2, None)
    with pytest.raises(QuotaRefused, match="would add up to 10 of its 9.*This is so from"):
        town.set(town.team, 9, 14)
    with pytest.raises(QuotaRefused):
        town.set(town.project, 11, 11, 2, None)
    dated = Quota.objects.get(tenant=town.project, guaranteed=10)
    remove_quota(actor=town.admin, tenant=town.project, pool=town.pool, quota_id=dated.pk)
    town.set(town.team, 9, 14)


def test_where_the_tenant_above_has_nothing_at_a_time_nothing_is_promised_below_it_then(town):
    town.set(town.root, 0, 14)
    town.set(town.team, 8, 8, None, 2)
    town.set(town.project, 8, 8)
    with pytest.raises(NoAccess, match="vision-lab has no quota"):
        town.ask(DateTimeTZRange(town.at(3), town.at(4), "[)"), tenant=town.project)
    with pytest.raises(QuotaRefused, match="would add up to 8 of its 4"):
        town.set(town.team, 4, 8, 2, None)


def test_a_quota_is_taken_away_when_what_is_below_fits_into_what_is_above(town):
    top = town.set(town.root, 0, 14)
    team = town.set(town.team, 8, 8)
    town.set(town.project, 8, 8)
    with pytest.raises(QuotaRefused, match="vision-lab below northquay has a quota in"):
        remove_quota(actor=town.admin, tenant=town.root, pool=town.pool, quota_id=top.pk)
    remove_quota(actor=town.admin, tenant=town.team, pool=town.pool, quota_id=team.pk)
    assert quotas_binding(town.team, town.pool) == [top]
    assert AuditEntry.objects.filter(action="quota.removed").get().before == {"guaranteed": 8, "limit": 8}


@pytest.mark.case("V-24")
def test_what_is_there_already_is_refused_as_a_duplicate_and_what_is_not_there_cannot_be_removed(town):
    quota = town.set(town.root, 0, 14, hours=[OFFICE])
    with pytest.raises(Duplicate, match="Mon–Fri 09:00–17:00 is there already"):
        town.set(town.root, 0, 14, hours=[OFFICE, OFFICE])
    assert hours_held(Quota.objects.get()) == [OFFICE]
    with pytest.raises(NotHeld):
        without(hours_held(quota), Hours(127, 0, 60))
    with pytest.raises(NotHeld):
        remove_quota(actor=town.admin, tenant=town.team, pool=town.pool, quota_id=quota.pk)
    town.set(town.root, 0, 14, hours=without([OFFICE], OFFICE))
    assert not OpenHours.objects.exists()


@pytest.mark.parametrize("hours", [(0, 0, 60), (128, 0, 60), (1, 60, 60), (1, 0, 1441), (1, -1, 5)])
def test_hours_that_make_no_sense_are_refused(town, hours):
    with pytest.raises(QuotaRefused):
        town.set(town.root, 0, 14, hours=[Hours(*hours)])
    assert not Quota.objects.exists()


@pytest.mark.case("V-22")
def test_a_narrowed_quota_names_the_future_reservations_that_it_no_longer_covers_and_ends_none(town):
    town.set(town.root, 0, 14)
    row = town.set(town.team, 0, 7)
    inside, outside = town.hold(0.2), town.hold(3)
    running = town.hold(-1.2, place=4, hours=50, lease_state=LeaseState.ACTIVE, state="running")
    _changed, uncovered = change_quota(actor=town.admin, tenant=town.team, pool=town.pool, guaranteed=0, limit=7,
                                       valid=town.days(None, 2), quota=row)  # fmt: skip
    assert [one.reservation for one in uncovered] == [outside]
    assert "vision-lab has no quota in" in uncovered[0].reason
    notice = Notice.objects.get(kind=Kind.QUOTA_NARROWED)
    assert (notice.user, notice.reservation_id) == (town.owner, outside.pk)
    assert set(Lease.objects.values_list("state", flat=True)) == {LeaseState.PLANNED, LeaseState.ACTIVE}
    assert {inside.state, running.state} == {"confirmed", "running"}
    again = change_quota(actor=town.admin, tenant=town.team, pool=town.pool, guaranteed=0, limit=6,
                         valid=town.days(None, 2), quota=row)[1]  # fmt: skip
    assert again == [] and Notice.objects.count() == 1


@pytest.mark.case("V-22", "Q-04")
def test_a_lower_limit_uncovers_who_booked_last_and_only_where_it_is_exceeded(town):
    make_quota(town.root, town.pool, 14)
    first, second = town.hold(1, profile="3g.40gb"), town.hold(1, profile="2g.20gb", place=4)
    elsewhere = town.hold(4, profile="4g.40gb")
    uncovered = change_quota(actor=town.admin, tenant=town.root, pool=town.pool, guaranteed=0, limit=4)[1]
    assert [one.reservation for one in uncovered] == [second]
    assert uncovered[0].reason.startswith("northquay may hold 4 slices of")
    assert {first.state, second.state, elsewhere.state} == {"confirmed"}
    assert Reservation.objects.filter(state="confirmed").count() == 3


@pytest.mark.case("V-22")
def test_a_quota_that_is_taken_away_or_widened_uncovers_nothing(town):
    make_quota(town.root, town.pool, 14)
    row = town.set(town.team, 0, 7)
    town.hold(1)
    assert change_quota(actor=town.admin, tenant=town.team, pool=town.pool, guaranteed=0, limit=9)[1] == []
    assert drop_quota(actor=town.admin, tenant=town.team, pool=town.pool, quota_id=row.pk) == []
    assert not Notice.objects.exists()


@pytest.mark.case("V-22")
def test_what_is_looked_through_does_not_grow_with_reservations(town, django_assert_max_num_queries):
    make_quota(town.root, town.pool, 14)
    for day in range(25):
        town.hold(day)
    with django_assert_max_num_queries(40):
        change_quota(actor=town.admin, tenant=town.root, pool=town.pool, guaranteed=0, limit=13)
