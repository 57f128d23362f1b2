"""A GPU has one set of media engines, whatever the size of the profile that wants them."""

import datetime as dt

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.reservations.booking import book_reservation
from portal.reservations.errors import NoCapacity
from portal.reservations.models import Lease
from portal.workloads.drafts import WorkloadDraft
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_reservation, make_user, profile_of, window

pytestmark = pytest.mark.django_db
RUN = WorkloadDraft("train", "", ("python", "-c", "pass"))
SMALL, LARGE = "1g.6gb+me", "2g.12gb+me"


@pytest.fixture
def world():
    root, _team, project = make_org()
    pool = make_pool_with_gpus("A30", gpus=2)
    make_quota(root, pool, 100)
    return project, pool, make_user("rosa", project)


def book(world, profile: str) -> Lease:
    project, pool, person = world
    start = timezone.now() + dt.timedelta(days=1)
    booked = book_reservation(
        created_by=person, owner=person, tenant=project, pool=pool, profile=profile_of(pool, profile), ranks=1,
        during=window(start, 2), workload=RUN,
    )  # fmt: skip
    return booked.leases.get()


def test_media_profiles_of_two_sizes_go_to_two_gpus_and_a_third_is_refused(world):
    assert book(world, SMALL).gpu_id != book(world, LARGE).gpu_id
    for profile in (SMALL, LARGE):
        with pytest.raises(NoCapacity):
            book(world, profile)
    assert book(world, "2g.12gb")


def test_whoever_forgets_it_is_refused_by_the_database(world):
    project, pool, _person = world
    gpu, during = pool.gpus.first(), window(timezone.now() + dt.timedelta(days=1), 2)
    make_reservation(project, pool, SMALL, during, places=((gpu, 0),))
    with pytest.raises(IntegrityError, match="lease_only_one_of_its_kind"), transaction.atomic():
        make_reservation(project, pool, LARGE, during, places=((gpu, 2),))
