"""The charts of a reservation: in which steps its use is drawn."""

import datetime as dt

import pytest
from django.utils import timezone

from portal.reservations.use_series import COARSE_SECONDS, FINE_SECONDS, best_series, stretch_over
from tests.factories import make_org, make_pool_with_gpus, make_reservation, window

pytestmark = pytest.mark.django_db
TEN_MINUTES = dt.timedelta(minutes=10)


@pytest.fixture
def lease():
    pool = make_pool_with_gpus()
    places = ((pool.gpus.first(), 0),)
    made = make_reservation(make_org()[1], pool, "2g.20gb", window(timezone.now()), places=places)
    return made.leases.get()


def _step(lease) -> int:
    until = timezone.now()
    return best_series(lease.pk, stretch_over(until - TEN_MINUTES, until))[0].step


def test_a_lease_that_has_only_just_started_is_drawn_in_fine_steps(lease):
    assert _step(lease) == FINE_SECONDS


def test_a_lease_of_which_only_rolled_up_means_are_kept_is_drawn_in_theirs(lease):
    lease.use.create(at=timezone.now() - dt.timedelta(minutes=5), seconds=COARSE_SECONDS, utilization=40.0)
    assert _step(lease) == COARSE_SECONDS


def test_fine_means_go_before_rolled_up_ones(lease):
    lease.use.create(at=timezone.now() - dt.timedelta(minutes=5), seconds=COARSE_SECONDS, utilization=40.0)
    lease.use.create(at=timezone.now() - dt.timedelta(minutes=1), seconds=FINE_SECONDS, utilization=40.0)
    assert _step(lease) == FINE_SECONDS
