"""Who may set what, how quotas fit into each other, and that a cut kills nothing."""

import datetime as dt

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg2.extras import DateTimeTZRange

from portal.audit.models import AuditEntry
from portal.quotas.errors import NotAllowed, QuotaRefused
from portal.quotas.models import Budget, Quota
from portal.quotas.selectors import quotas_binding
from portal.quotas.services import set_budget, set_quota
from portal.reservations.borrowing import holdings
from portal.reservations.models import Lease, LeaseState, Reservation
from portal.reservations.request import Request
from portal.reservations.rules import quota_refusal
from portal.reservations.selectors import leases_held, peak_weight_held
from portal.tenants.models import Role
from tests.factories import (
    HOUR,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    profile_of,
    window,
)

pytestmark = pytest.mark.django_db
NOON = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def pool(org):
    return make_pool_with_gpus("H100", gpus=4)


def set_by(actor, tenant, pool, guaranteed, limit):
    return set_quota(actor=actor, tenant=tenant, pool=pool, guaranteed=guaranteed, limit=limit)


def refusal(tenant, pool, profile, ranks, during):
    """What the quotas that bind the tenant say to a request, or None."""
    person = make_user()
    request = Request(person, person, tenant, pool, profile_of(pool, profile), ranks, during)
    return quota_refusal(request, quotas_binding(tenant, pool), during, holdings(leases_held(pool, during)))


def test_quotas_come_root_first_and_none_means_no_access(org, pool):
    root, team, project = org
    assert quotas_binding(project, pool) == []
    make_quota(project, pool, 3)
    make_quota(root, pool, 14)
    assert [quota.tenant for quota in quotas_binding(project, pool)] == [root, project]
    assert [quota.tenant for quota in quotas_binding(team, pool)] == [root]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.LEAD, Role.ADMIN])
def test_a_child_s_quota_is_set_by_leads_and_admins_of_its_parent(org, pool, role):
    root, team, project = org
    make_quota(root, pool, 28)
    make_quota(team, pool, 12, guaranteed=12)
    actor = make_user(tenant=team, role=role)
    if role in (Role.LEAD, Role.ADMIN):
        assert set_by(actor, project, pool, 2, 4).limit == 4
        assert set_budget(actor=actor, tenant=project, period="month", slice_seconds=7).slice_seconds == 7
    else:
        with pytest.raises(NotAllowed, match="Only a lead of vision-lab may set the limits of segmentation"):
            set_by(actor, project, pool, 2, 4)
        with pytest.raises(NotAllowed):
            set_budget(actor=actor, tenant=project, period="month", slice_seconds=7)


def test_nobody_sets_their_own_tenant_s_quota(org, pool):
    root, team, project = org
    make_quota(root, pool, 28)
    with pytest.raises(NotAllowed):
        set_by(make_user(tenant=team, role=Role.ADMIN), team, pool, 0, 28)
    assert not Quota.objects.filter(tenant=team).exists()


def test_the_root_s_quota_is_the_platform_admin_s(org, pool):
    root, team, project = org
    with pytest.raises(NotAllowed, match="Only an admin of northquay"):
        set_by(make_user(tenant=root, role=Role.LEAD), root, pool, 0, 28)
    assert set_by(make_user(tenant=root, role=Role.ADMIN), root, pool, 0, 28).limit == 28


def test_guarantees_below_never_exceed_the_parent_s_and_the_refusal_says_what_would_help(org, pool):
    root, team, project = org
    video = make_tenant("video", team)
    make_quota(root, pool, 28)
    make_quota(team, pool, 20, guaranteed=12)
    make_quota(project, pool, 12, guaranteed=11)
    lead = make_user(tenant=team, role=Role.LEAD)
    with pytest.raises(QuotaRefused) as refused:
        set_by(lead, video, pool, 2, 4)
    assert str(refused.value) == (
        "Guarantees below vision-lab would add up to 13 of its 12. Lower video to 1, or raise vision-lab."
    )
    assert set_by(lead, video, pool, 1, 4).guaranteed == 1


def test_the_root_may_promise_its_whole_limit_and_no_more(org, pool):
    root, team, project = org
    admin = make_user(tenant=root, role=Role.ADMIN)
    set_by(admin, root, pool, 0, 14)
    set_by(admin, team, pool, 13, 13)
    robotics = make_tenant("robotics", root)
    with pytest.raises(QuotaRefused, match="would add up to 15 of its 14. Lower robotics to 1, or raise northquay"):
        set_by(admin, robotics, pool, 2, 2)
    set_by(admin, robotics, pool, 1, 2)
    with pytest.raises(QuotaRefused, match="would add up to 14 of its 13. Lower vision-lab to 12, or raise northquay"):
        set_by(admin, root, pool, 0, 13)


def test_a_child_s_limit_stays_within_its_parent_s_from_both_sides(org, pool):
    root, team, project = org
    admin = make_user(tenant=root, role=Role.ADMIN)
    set_by(admin, root, pool, 0, 14)
    with pytest.raises(QuotaRefused, match="vision-lab may hold 15, more than the limit of 14 of northquay"):
        set_by(admin, team, pool, 0, 15)
    set_by(admin, team, pool, 0, 14)
    with pytest.raises(QuotaRefused, match="vision-lab may hold 14, more than the limit of 10 of northquay"):
        set_by(admin, root, pool, 0, 10)


def test_a_tenant_between_without_a_row_is_looked_through(org, pool):
    root, team, project = org
    admin = make_user(tenant=root, role=Role.ADMIN)
    set_by(admin, root, pool, 0, 14)
    set_by(admin, project, pool, 8, 8)
    with pytest.raises(QuotaRefused, match="Guarantees below vision-lab would add up to 8 of its 6"):
        set_by(admin, team, pool, 6, 10)
    assert set_by(admin, team, pool, 8, 10).guaranteed == 8


def test_nothing_can_be_given_where_nothing_was_had(org, pool):
    root, team, project = org
    with pytest.raises(QuotaRefused, match="vision-lab has no quota in"):
        set_by(make_user(tenant=root, role=Role.ADMIN), project, pool, 0, 1)


@pytest.mark.parametrize(("guaranteed", "limit"), [(-1, 4), (5, 4), (0, -1), (0, 10**18)])
def test_numbers_that_make_no_sense_are_refused(org, pool, guaranteed, limit):
    root, *_ = org
    with pytest.raises(QuotaRefused):
        set_by(make_user(tenant=root, role=Role.ADMIN), root, pool, guaranteed, limit)
    assert not Quota.objects.exists()


def test_every_change_is_audited_with_before_and_after(org, pool):
    root, *_ = org
    admin = make_user(tenant=root, role=Role.ADMIN)
    set_by(admin, root, pool, 0, 14)
    set_by(admin, root, pool, 2, 12)
    set_budget(actor=admin, tenant=root, period="quarter", slice_seconds=3600)
    set_budget(actor=admin, tenant=root, period="quarter", slice_seconds=None)
    assert not Budget.objects.exists()
    assert [(entry.action, entry.before, entry.after) for entry in AuditEntry.objects.order_by("id")] == [
        ("quota.set", {}, {"guaranteed": 0, "limit": 14}),
        ("quota.set", {"guaranteed": 0, "limit": 14}, {"guaranteed": 2, "limit": 12}),
        ("budget.set", {}, {"period": "quarter", "slice_seconds": 3600}),
        ("budget.set", {"period": "quarter", "slice_seconds": 3600}, {}),
    ]
    assert all(entry.actor == admin and entry.tenant == root for entry in AuditEntry.objects.all())


@pytest.mark.parametrize(("period", "seconds"), [("week", 1), ("month", -1), ("month", 10**18)])
def test_budgets_that_make_no_sense_are_refused(org, period, seconds):
    root, *_ = org
    with pytest.raises(QuotaRefused):
        set_budget(actor=make_user(tenant=root, role=Role.ADMIN), tenant=root, period=period, slice_seconds=seconds)
    assert not Budget.objects.exists()


@pytest.mark.case("Q-04")
def test_a_limit_cut_below_use_ends_nothing_and_use_still_counts(org, pool):
    root, team, project = org
    admin = make_user(tenant=root, role=Role.ADMIN)
    set_by(admin, root, pool, 0, 14)
    gpus = list(pool.gpus.all())
    running = make_reservation(project, pool, "7g.80gb", window(NOON, 2), places=((gpus[0], 0), (gpus[1], 0)),
                               lease_state=LeaseState.ACTIVE)  # fmt: skip
    set_by(admin, root, pool, 0, 7)
    type(gpus[0]).objects.filter(pk=gpus[0].pk).update(present=False)
    assert Reservation.objects.get(pk=running.pk).state == "confirmed"
    assert set(Lease.objects.values_list("state", flat=True)) == {LeaseState.ACTIVE}
    assert peak_weight_held(root, pool, window(NOON, 1)) == 14
    assert refusal(team, pool, "1g.10gb", 1, window(NOON, 1)).evidence["held"] == 14


@pytest.mark.case("Q-06")
def test_equal_to_the_limit_is_accepted_and_one_more_is_not(org, pool):
    root, team, project = org
    make_quota(root, pool, 14)
    make_quota(team, pool, 3)
    make_reservation(project, pool, "1g.10gb", window(NOON, 1), places=((pool.gpus.first(), 0),))
    assert refusal(project, pool, "2g.20gb", 1, window(NOON, 1)) is None
    assert refusal(project, pool, "3g.40gb", 1, window(NOON, 1)).evidence["limit"] == 3


@pytest.mark.case("Q-07")
def test_a_huge_count_is_refused_without_overflow(org, pool):
    root, team, project = org
    make_quota(root, pool, 14)
    assert refusal(project, pool, "7g.80gb", 10**18, window(NOON, 1)).evidence["asked"] == 7 * 10**18


@pytest.mark.case("R-11")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60), st.integers(0, 3)), max_size=8), data=st.data())
def test_the_peak_over_a_window_is_the_highest_minute(org, pool, steps, data):
    """A staircase of overlapping bookings, against counting every minute."""
    names = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"]
    root, team, project = org
    Lease.objects.all().delete()
    gpus = list(pool.gpus.all())
    weights = [0] * 200
    free = {gpu.pk: [0] * 200 for gpu in gpus}
    for begin, length, which in steps:
        minutes = range(begin, begin + length)
        gpu = next((gpu for gpu in gpus if not any(free[gpu.pk][minute] for minute in minutes)), None)
        if gpu is None:
            continue
        minute = dt.timedelta(minutes=1)
        during = DateTimeTZRange(NOON + begin * minute, NOON + (begin + length) * minute, "[)")
        reservation = make_reservation(project, pool, names[which], during, places=((gpu, 0),))
        for at in minutes:
            free[gpu.pk][at] = 1
            weights[at] += reservation.weight
    first = data.draw(st.integers(0, 150))
    last = data.draw(st.integers(first + 1, 160))
    asked = DateTimeTZRange(NOON + first * dt.timedelta(minutes=1), NOON + last * dt.timedelta(minutes=1), "[)")
    assert peak_weight_held(team, pool, asked) == max(weights[first:last])
    assert peak_weight_held(project, pool, asked) == peak_weight_held(root, pool, asked)


@pytest.mark.case("Q-06")
def test_the_tables_hold_whole_numbers_only():
    """No column of quotas, the ledger or leases is a binary float."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE data_type IN ('real', 'double precision')"
            " AND table_name ~ '^(quotas|ledger|reservations|inventory)_'"
        )
        assert cursor.fetchall() == []


def test_a_lease_in_another_pool_does_not_count(org, pool):
    root, *_ = org
    other = make_pool_with_gpus("A100", gpus=1)
    make_reservation(root, other, "7g.80gb", window(NOON, 1), places=((other.gpus.get(), 0),))
    assert peak_weight_held(root, pool, window(NOON, 1)) == 0
    assert peak_weight_held(root, other, window(NOON + HOUR, 1)) == 0
