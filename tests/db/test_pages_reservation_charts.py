"""The charts of a reservation: in which steps its use is drawn, and what is said where nothing can be measured."""

import datetime as dt

import pytest
from django.utils import timezone

from portal.inventory.models import Gpu
from portal.reservations.models import Lease, Reservation, State
from portal.reservations.use_series import COARSE_SECONDS, FINE_SECONDS, best_series, stretch_over
from portal.tenants.models import Membership, Role
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_reservation, window

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


@pytest.fixture
def reader(client, lease):
    owner, tenant = lease.reservation.owner, lease.reservation.tenant
    Membership.objects.get_or_create(user=owner, tenant=tenant, defaults={"role": Role.MEMBER})
    Lease.objects.filter(pk=lease.pk).update(state="active", starting_at=timezone.now(), active_at=timezone.now())
    client.force_login(owner)
    return client


def test_a_device_that_does_not_tell_its_use_is_named_with_a_pool_that_does(reader, lease):
    other = make_pool_with_gpus("A100")
    make_quota(lease.reservation.tenant, other, limit=7)
    Gpu.objects.update(measured=False)
    page = f"/reservations/{lease.reservation.number}/"
    assert "does not tell how busy a slice is" in reader.get(page).content.decode()
    assert "which is measured" not in reader.get(page).content.decode()
    other.gpus.update(measured=True)
    assert f'href="/reserve/?pool={other.pk}"' in reader.get(page).content.decode()
    assert "data-since" not in reader.get(page).content.decode()  # nothing is waited for
    Gpu.objects.update(measured=None)
    assert "does not tell how busy" not in reader.get(page).content.decode()


def test_home_says_why_of_what_cannot_be_measured_and_since_when_a_first_sample_is_awaited(reader, lease):
    Reservation.objects.update(state=State.RUNNING)
    why = f'href="/reservations/{lease.reservation.number}/#h-use"'
    assert "data-since" in reader.get("/").content.decode() and why not in reader.get("/").content.decode()
    Gpu.objects.update(measured=False)
    assert why in reader.get("/").content.decode() and "data-since" not in reader.get("/").content.decode()


def test_a_pool_that_measures_is_offered_first_and_one_that_does_not_says_so(reader, lease):
    tenant, hopper = lease.reservation.tenant, make_pool_with_gpus("H100")
    Gpu.objects.exclude(pool=hopper).update(measured=False)
    for pool in (lease.gpu.pool, hopper):
        make_quota(tenant, pool, limit=7)
    for path in ("/reserve/", "/rail/"):
        assert reader.get(path).context["offer"].pool == hopper
        assert "does not tell" not in reader.get(path).content.decode()
        other = reader.get(path, {"pool": lease.gpu.pool_id})
        assert other.context["offer"].pool == lease.gpu.pool
    assert "do not tell how busy a slice is" in reader.get("/reserve/", {"pool": lease.gpu.pool_id}).content.decode()


def test_what_failed_before_anything_was_measured_says_its_exit_code_and_draws_no_empty_charts(reader, lease):
    ended = timezone.now()
    Lease.objects.filter(pk=lease.pk).update(state="ended", ended_at=ended, exit_code=3, end_reason="exit_failed")
    Reservation.objects.update(state=State.ENDED, ended_at=ended, end_reason="failed")
    body = reader.get(f"/reservations/{lease.reservation.number}/").content.decode()
    assert "The command ended by itself with exit code 3." in body and "Nothing was measured while it ran." in body
    assert 'class="charts' not in body and "Reserve again" in body
