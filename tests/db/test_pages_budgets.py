"""Budgets as people read them: when one is used up, and what stays of the tightest after what is asked for."""

import datetime as dt

import pytest
from django.test import Client
from django.utils import timezone

from portal.quotas.models import Period
from portal.reservations.availability import preview
from portal.reservations.models import LeaseState, State
from portal.reservations.spending import budget_statuses
from portal.tenants.models import Role
from tests.factories import (
    HOUR,
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_user,
    profile_of,
    record,
    window,
)

pytestmark = pytest.mark.django_db
DAY = 24 * HOUR


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def pool(org):
    pool = make_pool_with_gpus("H100", gpus=2)
    make_quota(org[0], pool, 100)
    return pool


@pytest.fixture
def page(org):
    client = Client()
    client.force_login(make_user("lin", org[1], Role.LEAD))
    return client


def held_a_fortnight(tenant, pool, now: dt.datetime) -> None:
    """1 slice for the last 14 days: a pace of one slice-day a day."""
    start = now - 14 * DAY
    lease = make_reservation(tenant, pool, "1g.10gb", window(start, 14 * 24), places=((pool.gpus.first(), 0),),
                             state=State.ENDED, lease_state=LeaseState.ENDED).leases.get()  # fmt: skip
    record(lease, "opened", start)
    record(lease, "closed", now)


def left_in_days(tenant, days: float) -> dt.datetime:
    """Give the tenant a yearly budget of which so much is left; returns when it is used up at one slice a day."""
    now = timezone.now()
    budget = make_budget(tenant, 10**12, Period.YEAR)
    (status,) = budget_statuses(tenant)
    budget.slice_seconds = status.spent + int(days * 86400)
    budget.save()
    return now + dt.timedelta(days=days)


@pytest.mark.parametrize("address", ["/usage/", "/rail/", "/tenants/?tenant={}"])
def test_a_page_says_on_which_day_a_budget_is_used_up(page, org, pool, address):
    held_a_fortnight(org[1], pool, timezone.now())
    at = left_in_days(org[1], 0.5)
    (status,) = budget_statuses(org[1], paced=True)
    text = page.get(address.format(org[1].pk)).content.decode()
    if status.until < at:  # in the last hours of a year the period ends first
        assert status.pace.runs_out_at is None
        return
    assert abs(status.pace.runs_out_at - at) < dt.timedelta(minutes=5)
    assert "At the pace of the last two weeks it is used up on" in text
    assert f"{timezone.localtime(status.pace.runs_out_at):%a} {status.pace.runs_out_at.day} " in text


@pytest.mark.parametrize("address", ["/usage/", "/rail/", "/tenants/?tenant={}"])
def test_a_page_says_what_is_left_where_nothing_runs_out(page, org, pool, address):
    left_in_days(org[1], 10**6)
    text = page.get(address.format(org[1].pk)).content.decode()
    assert "slice-h are left when the period ends" in text
    assert "is used up" not in text


def test_a_budget_that_is_used_up_says_so(page, org, pool):
    held_a_fortnight(org[1], pool, timezone.now())
    left_in_days(org[1], 0)
    text = page.get("/usage/").content.decode()
    assert "It is used up." in text


def test_the_price_is_laid_against_the_budget_that_it_leaves_least_of(org, pool):
    """Over the end of a month: little is left of the next, but it is the first that the window takes nearly all of."""
    now = timezone.now()
    first = (now.replace(day=1) + dt.timedelta(days=64)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    type(pool).objects.filter(pk=pool.pk).update(book_ahead_seconds=100 * 86400)
    pool.refresh_from_db()
    make_budget(org[1], 10 * 3600)
    make_reservation(org[1], pool, "1g.10gb", window(first + 24 * HOUR, 2), places=((pool.gpus.first(), 0),))
    during = window(first - 9 * HOUR, 10)
    seen = preview(org[1], pool, profile_of(pool, "1g.10gb"), 1, during)
    assert seen.fits
    assert seen.price_slice_seconds == 10 * 3600
    assert seen.budget.until == first
    assert (seen.budget.left, seen.budget.cost(1, during.lower, during.upper)) == (10 * 3600, 9 * 3600)
