"""Budgets are sums over rows: what was held, what is promised, clipped to the budget's own calendar period."""

import datetime as dt
import zoneinfo

import pytest
from psycopg2.extras import DateTimeTZRange

from portal.quotas.models import Period
from portal.quotas.periods import period_at, periods_met
from portal.reservations.errors import BudgetExceeded
from portal.reservations.models import LeaseState, State
from portal.reservations.spending import budget_statuses_during, check_budgets
from tests.factories import HOUR, make_budget, make_org, make_pool_with_gpus, make_reservation, record, window

pytestmark = pytest.mark.django_db
NOON = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
HOURS = 3600


@pytest.fixture
def house():
    root, team, project = make_org()
    pool = make_pool_with_gpus("H100", gpus=2)
    return root, team, project, pool


def lease_of(tenant, pool, profile, during, gpu=0, start=0, state=LeaseState.ACTIVE):
    place = (pool.gpus.all()[gpu], start)
    return make_reservation(tenant, pool, profile, during, places=(place,), lease_state=state).leases.get()


def sums(tenant, now=NOON, at=None):
    at = at or now
    return [(status.spent, status.committed) for status in budget_statuses_during(tenant, at, at + HOUR, now)]


def test_a_running_lease_costs_what_it_held_and_promises_the_rest(house):
    root, team, project, pool = house
    make_budget(team, 100 * HOURS)
    record(lease_of(project, pool, "3g.40gb", window(NOON - 2 * HOUR, 3)), "opened", NOON - 2 * HOUR)
    assert sums(team) == [(3 * 2 * HOURS, 3 * 1 * HOURS)]


@pytest.mark.case("R-12")
def test_hours_already_past_are_not_promised_a_second_time(house):
    """A 3 h booking that is 2 h in and not started yet holds only the hour that is left."""
    root, team, project, pool = house
    make_budget(project, 100 * HOURS)
    lease_of(project, pool, "1g.10gb", window(NOON - 2 * HOUR, 3), state=LeaseState.STARTING)
    assert sums(project) == [(0, 1 * HOURS)]


@pytest.mark.case("R-12")
def test_ending_early_gives_back_exactly_the_rest(house):
    """While it is being stopped it promises nothing, and closed it costs the two hours held."""
    root, team, project, pool = house
    make_budget(project, 100 * HOURS)
    lease = lease_of(project, pool, "1g.10gb", window(NOON - 2 * HOUR, 3))
    record(lease, "opened", NOON - 2 * HOUR)
    assert sums(project) == [(2 * HOURS, 1 * HOURS)]
    type(lease).objects.filter(pk=lease.pk).update(state=LeaseState.STOPPING)
    assert sums(project) == [(2 * HOURS, 0)]
    record(lease, "closed", NOON)
    type(lease).objects.filter(pk=lease.pk).update(state=LeaseState.ENDED)
    assert sums(project, now=NOON + HOUR) == [(2 * HOURS, 0)]


def test_a_lease_whose_node_is_silent_costs_no_more_than_its_window(house):
    root, team, project, pool = house
    make_budget(project, 100 * HOURS)
    record(lease_of(project, pool, "1g.10gb", window(NOON - 5 * HOUR, 2)), "opened", NOON - 5 * HOUR)
    assert sums(project) == [(2 * HOURS, 0)]


def test_corrections_count_with_their_sign_in_the_period_they_are_dated_in(house):
    root, team, project, pool = house
    make_budget(root, 100 * HOURS)
    lease = lease_of(project, pool, "2g.20gb", window(NOON - 3 * HOUR, 2), state=LeaseState.ENDED)
    record(lease, "opened", NOON - 3 * HOUR)
    record(lease, "closed", NOON - HOUR)
    record(lease, "corrected", NOON - HOUR, seconds=-600)
    assert sums(root) == [(2 * (2 * HOURS - 600), 0)]
    assert sums(root, at=NOON + dt.timedelta(days=40)) == [(0, 0)]


def test_what_reaches_over_the_end_of_a_period_is_split_between_both(house):
    root, team, project, pool = house
    make_budget(team, 100 * HOURS)
    month_end = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    lease = lease_of(project, pool, "1g.10gb", window(month_end - HOUR, 3), state=LeaseState.ENDED)
    record(lease, "opened", month_end - HOUR)
    record(lease, "closed", month_end + 2 * HOUR)
    lease_of(project, pool, "2g.20gb", window(month_end - 2 * HOUR, 3), gpu=1, state=LeaseState.PLANNED)
    both = budget_statuses_during(team, month_end - HOUR, month_end + HOUR, month_end - 3 * HOUR)
    assert [status.committed for status in both] == [2 * 2 * HOURS, 2 * 1 * HOURS]
    later = budget_statuses_during(team, month_end - HOUR, month_end + HOUR, month_end + 5 * HOUR)
    assert [status.spent for status in later] == [1 * HOURS, 2 * HOURS]


def test_sums_cover_the_subtree_and_nothing_beside_it(house):
    root, team, project, pool = house
    for tenant in (root, team, project):
        make_budget(tenant, 100 * HOURS)
    lease_of(project, pool, "1g.10gb", window(NOON, 1), state=LeaseState.PLANNED)
    lease_of(root, pool, "2g.20gb", window(NOON, 1), start=2, state=LeaseState.PLANNED)
    assert sums(project) == [(0, 3 * HOURS), (0, 1 * HOURS), (0, 1 * HOURS)]


def test_cancelled_and_ended_leases_promise_nothing(house):
    root, team, project, pool = house
    make_budget(root, 100 * HOURS)
    place = (pool.gpus.all()[0], 0)
    make_reservation(project, pool, "7g.80gb", window(NOON, 1), places=(place,), state=State.CANCELLED,
                     lease_state=LeaseState.ENDED)  # fmt: skip
    assert sums(root) == [(0, 0)]


@pytest.mark.case("Q-06")
def test_equal_to_what_is_left_is_accepted_and_a_second_more_is_not(house):
    root, team, project, pool = house
    make_budget(project, 6 * HOURS)
    lease_of(project, pool, "1g.10gb", window(NOON, 2), state=LeaseState.PLANNED)
    check_budgets(project, 2, window(NOON + 3 * HOUR, 2), NOON)
    longer = DateTimeTZRange(NOON + 3 * HOUR, NOON + 5 * HOUR + dt.timedelta(seconds=1), "[)")
    with pytest.raises(BudgetExceeded) as refused:
        check_budgets(project, 2, longer, NOON)
    assert refused.value.evidence["left_slice_seconds"] == 4 * HOURS
    assert refused.value.evidence["asked_slice_seconds"] == 4 * HOURS + 2
    assert str(refused.value) == "segmentation has 4 of its 6 slice-h left in November 2026; this needs 4.1."


def test_a_window_over_two_months_is_checked_against_each(house):
    root, team, project, pool = house
    make_budget(team, 4 * HOURS)
    month_end = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    check_budgets(project, 1, window(month_end - 4 * HOUR, 8), NOON)
    with pytest.raises(BudgetExceeded, match="December 2026"):
        check_budgets(project, 1, window(month_end - 4 * HOUR, 9), NOON)


@pytest.mark.case("Q-07")
def test_a_budget_above_binds_and_a_huge_request_is_refused_in_whole_numbers(house):
    root, team, project, pool = house
    make_budget(root, 10 * HOURS)
    with pytest.raises(BudgetExceeded) as refused:
        check_budgets(project, 7 * 10**18, window(NOON, 1), NOON)
    assert refused.value.evidence["asked_slice_seconds"] == 7 * 10**18 * 3600


def test_periods_begin_at_local_midnight_and_leave_no_gap(house):
    root, *_ = house
    type(root).objects.filter(pk=root.pk).update(time_zone="Europe/Vienna")
    root.refresh_from_db()
    budget = make_budget(root, 1, Period.MONTH)
    budget.tenant = root
    vienna = zoneinfo.ZoneInfo("Europe/Vienna")
    march = period_at(budget, dt.datetime(2026, 3, 15, tzinfo=dt.UTC))
    assert march.since == dt.datetime(2026, 3, 1, tzinfo=vienna)
    assert march.until == dt.datetime(2026, 4, 1, tzinfo=vienna)
    assert march.until - march.since == dt.timedelta(days=31) - HOUR
    assert period_at(budget, march.until).since == march.until
    budget.period = Period.QUARTER
    assert [str(period) for period in periods_met(budget, march.since, march.until + HOUR)] == [
        "quarter 1 of 2026", "quarter 2 of 2026"]  # fmt: skip
    budget.period = Period.YEAR
    assert period_at(budget, dt.datetime(2026, 12, 31, 23, tzinfo=dt.UTC)).since.year == 2026
    assert str(period_at(budget, dt.datetime(2026, 12, 31, 23, tzinfo=dt.UTC))) == "2027"


def test_the_number_of_queries_does_not_grow_with_rows(house, django_assert_num_queries):
    root, team, project, pool = house
    for tenant in (root, team, project):
        make_budget(tenant, 10**9)
    for day in range(25):
        lease_of(project, pool, "1g.10gb", window(NOON + day * 24 * HOUR, 1), state=LeaseState.PLANNED)
    with django_assert_num_queries(2):
        check_budgets(project, 1, window(NOON, 1), NOON)
