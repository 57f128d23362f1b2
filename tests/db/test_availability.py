"""What a request would get: the same as booking it, one dominant reason, and ways on that can really be booked."""

import datetime as dt

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.inventory.models import Node, Pool
from portal.reservations.availability import (
    alternatives_for,
    free_counts,
    free_over_time,
    outlook_around,
    preview,
    with_alternatives,
)
from portal.reservations.booking import book_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Lease, Reservation
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft
from tests.factories import (
    HOUR,
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_user,
    profile_of,
    window,
)

pytestmark = pytest.mark.django_db
HOURS = 3600
DRAFT = WorkloadDraft(name="training", command=("train",))


class House:
    """northquay > vision-lab > segmentation, a pool of H100, and a start that is tomorrow at a full hour."""

    def __init__(self, gpus: int = 1) -> None:
        self.root, self.team, self.project = make_org()
        self.pool = make_pool_with_gpus("H100", gpus=gpus, name="H100 MIG")
        self.user = make_user("rosa", self.project)
        self.start = timezone.now().replace(minute=0, second=0, microsecond=0) + 24 * HOUR

    def ask(self, profile: str, hours: float = 2, ranks: int = 1, pool: Pool | None = None, **more):
        pool = pool or self.pool
        during = window(self.start, hours)
        return preview(self.project, pool, profile_of(pool, profile), ranks, during, owner=self.user, **more)

    def hold(self, profile: str, *starts: int, gpu: int = 0, hours: float = 4, tenant: Tenant | None = None):
        device = self.pool.gpus.all()[gpu]
        return make_reservation(tenant or self.root, self.pool, profile, window(self.start, hours),
                                places=tuple((device, start) for start in starts))  # fmt: skip

    def book(self, pool, profile, ranks, during) -> Reservation:
        return book_reservation(created_by=self.user, owner=self.user, tenant=self.project, pool=pool, profile=profile,
                                ranks=ranks, during=during, workload=DRAFT)  # fmt: skip


@pytest.fixture
def house():
    house = House()
    make_quota(house.root, house.pool, 100)
    return house


def kinds(answer):
    return [one.kind for one in answer.alternatives]


def sizes_booked(reservation: Reservation) -> list[int]:
    return [lease.span.upper - lease.span.lower for lease in reservation.leases.all()]


def sizes_shown(answer) -> list[int]:
    return [place.end - place.start for place in answer.placements]


def book_each(house, answer):
    """Every alternative is taken by booking, one after another on a clean slate: as many slices as were shown. Where
    they lie may change until they are frozen."""
    for one in answer.alternatives:
        booked = house.book(one.pool, one.profile, one.ranks, one.during)
        assert booked.price_slice_seconds == one.price_slice_seconds
        assert sizes_booked(booked) == sizes_shown(one)
        Lease.objects.filter(reservation=booked).update(state="ended")


def test_what_fits_shows_its_place_its_price_and_what_stays(house):
    make_quota(house.project, house.pool, 7, guaranteed=2)
    make_budget(house.team, 100 * HOURS)
    house.hold("1g.10gb", 0, tenant=house.project)
    answer = house.ask("3g.40gb")
    assert answer.fits and answer.reason is None and answer.alternatives == ()
    assert answer.price_slice_seconds == 3 * 2 * HOURS
    assert (answer.held_peak, answer.quota_guaranteed, answer.quota_limit) == (1, 2, 7)
    assert answer.budget.left == 100 * HOURS - 4 * HOURS
    booked = house.book(house.pool, profile_of(house.pool, "3g.40gb"), 1, window(house.start, 2))
    assert sizes_shown(answer) == sizes_booked(booked) == [4]


def test_without_a_quota_on_the_way_up_there_is_no_access(house):
    other = make_pool_with_gpus("A100")
    answer = house.ask("1g.10gb", pool=other)
    assert (answer.reason.code, kinds(answer)) == ("no_access", [])
    assert str(answer.reason) == f"segmentation has no access to {other.name}."


def test_who_is_not_a_member_has_no_access(house):
    stranger = make_user("stranger")
    profile = profile_of(house.pool, "1g.10gb")
    answer = preview(house.project, house.pool, profile, 1, window(house.start, 1), owner=stranger)
    assert answer.reason.code == "no_access"


def test_reasons_come_in_a_fixed_order_the_first_that_holds_wins(house):
    """Everything is wrong at once; each obstacle removed shows the next."""
    project_quota = make_quota(house.project, house.pool, 0)
    make_budget(house.project, 0)
    house.hold("7g.80gb", 0)
    Pool.objects.filter(pk=house.pool.pk).update(longest_window_seconds=HOURS)
    house.pool.refresh_from_db()
    foreign = profile_of(make_pool_with_gpus("A30", gpus=1), "1g.6gb")

    def code(profile=foreign):
        return preview(house.project, house.pool, profile, 1, window(house.start, 2), owner=house.user).reason.code

    assert code() == "window_refused"
    Pool.objects.filter(pk=house.pool.pk).update(longest_window_seconds=7 * 24 * HOURS)
    house.pool.refresh_from_db()
    assert code() == "profile_unknown"
    own = profile_of(house.pool, "1g.10gb")
    assert code(own) == "quota_exceeded"
    project_quota.limit = 7
    project_quota.save()
    assert code(own) == "budget_exceeded"
    house.project.budget.delete()
    assert code(own) == "no_capacity"


def test_the_quota_s_sentence_has_its_numbers(house):
    make_quota(house.team, house.pool, 7)
    house.hold("7g.80gb", 0, tenant=house.team)
    answer = house.ask("1g.10gb")
    assert str(answer.reason) == ("vision-lab holds 7 of its 7 slices in this window; this asks for 1 more.")


@pytest.mark.case("M-08")
def test_capacity_that_is_fragmented_says_so_and_what_is_offered_can_be_booked(house):
    """Four slices are free, but not side by side where 3g.40gb may sit."""
    house.hold("2g.20gb", 0, hours=3)
    house.hold("1g.20gb", 4, hours=5)
    Lease.objects.update(frozen_at=timezone.now())
    answer = house.ask("3g.40gb")
    assert answer.reason.code == "no_capacity" and answer.reason.evidence["why"] == "fragmented"
    assert "but nowhere the 4 side by side that 3g.40gb needs" in str(answer.reason)
    assert kinds(answer) == ["later", "smaller"]
    later, smaller = answer.alternatives[:2]
    assert later.during.lower == house.start + 3 * HOUR
    assert smaller.profile.name == "2g.20gb"
    book_each(house, answer)


def test_another_pool_is_offered_with_as_much_memory_or_more(house):
    other = make_pool_with_gpus("A100", gpus=1, name="A100 MIG")
    make_quota(house.root, other, 100)
    closed = make_pool_with_gpus("H200", gpus=1, name="H200 without quota")
    house.hold("7g.80gb", 0)
    answer = house.ask("2g.20gb")
    there = next(one for one in answer.alternatives if one.kind == "other_pool")
    assert there.pool == other and there.pool != closed
    assert there.profile.memory_mib >= profile_of(house.pool, "2g.20gb").memory_mib
    book_each(house, answer)


def test_when_the_quota_refuses_a_smaller_profile_and_a_shorter_window_keep_to_it(house):
    make_quota(house.project, house.pool, 3)
    make_reservation(house.project, house.pool, "2g.20gb", window(house.start + HOUR, 2),
                     places=((house.pool.gpus.get(), 0),))  # fmt: skip
    answer = house.ask("3g.40gb", hours=2)
    assert answer.reason.code == "quota_exceeded"
    assert kinds(answer) == ["shorter", "smaller", "later"]
    shorter, smaller, later = answer.alternatives
    assert shorter.during == window(house.start, 1)
    assert smaller.profile.weight == 1
    assert later.during.lower == house.start + 3 * HOUR
    book_each(house, answer)


def test_when_the_budget_refuses_the_longest_window_it_pays_is_offered(house):
    make_budget(house.project, 5 * HOURS)
    answer = house.ask("2g.20gb", hours=4)
    assert answer.reason.code == "budget_exceeded"
    shorter, smaller = answer.alternatives[:2]
    assert shorter.during == window(house.start, 2.5)
    assert (smaller.kind, smaller.profile.weight) == ("smaller", 1)
    book_each(house, answer)


def test_whole_gpus_that_are_too_many_are_offered_as_the_most_that_fit(house):
    whole = make_pool_with_gpus("L40S", gpus=3, name="L40S")
    make_quota(house.root, whole, 100)
    make_reservation(house.root, whole, "full", window(house.start, 4), places=((whole.gpus.first(), 0),))
    answer = house.ask("full", ranks=3, pool=whole)
    assert answer.reason.evidence["why"] == "too_few"
    fewer = next(one for one in answer.alternatives if one.kind == "fewer")
    assert (fewer.ranks, fewer.price_slice_seconds) == (2, 2 * 7 * 2 * HOURS)
    book_each(house, answer)


def test_a_gang_that_does_not_fit_is_offered_as_many_of_the_next_size():
    house = House(gpus=3)
    make_quota(house.root, house.pool, 100)
    house.hold("1g.10gb", 0)
    answer = house.ask("7g.80gb", ranks=3)
    assert answer.reason.evidence["why"] == "too_few"
    assert str(answer.reason) == "2 × 7g.80gb fit in H100 MIG for all of this window; this needs 3."
    kept = {one.kind: one for one in answer.alternatives}
    assert (kept["smaller"].profile.name, kept["smaller"].ranks) == ("3g.40gb", 3)
    book_each(house, answer)


def test_an_earlier_start_is_offered_where_no_later_one_is_allowed(house):
    Pool.objects.filter(pk=house.pool.pk).update(book_ahead_seconds=30 * HOURS)
    house.pool.refresh_from_db()
    house.hold("7g.80gb", 0, hours=24)
    answer = house.ask("1g.10gb", hours=1)
    assert answer.alternatives[0].kind == "earlier"
    assert answer.alternatives[0].during.lower <= timezone.now() + dt.timedelta(seconds=61)
    book_each(house, answer)


def test_a_refusal_of_booking_gets_the_full_reason_and_ways_on(house):
    house.hold("7g.80gb", 0)
    profile = profile_of(house.pool, "1g.10gb")
    with pytest.raises(ReservationRefused) as refused:
        house.book(house.pool, profile, 1, window(house.start, 1))
    fuller = with_alternatives(refused.value, house.project, house.pool, profile, 1, window(house.start, 1))
    assert fuller.evidence["next_free_at"] == (house.start + 4 * HOUR).isoformat()
    assert fuller.alternatives[0].kind == "later"
    same = alternatives_for(house.project, house.pool, profile, 1, window(house.start, 1), refused.value)
    assert [one.during for one in same] == [one.during for one in fuller.alternatives]


def test_a_pool_whose_nodes_are_all_away_has_no_gpu_and_offers_nothing_there(house):
    Node.objects.update(silent_since=timezone.now())
    answer = house.ask("1g.10gb")
    assert str(answer.reason) == "No GPU of H100 MIG takes 1g.10gb now."
    assert kinds(answer) == []


def test_free_counts_name_every_profile_and_when_the_next_one_is_free(house):
    house.hold("4g.40gb", 0)
    found = {one.profile.name: one for one in free_counts(house.pool, window(house.start, 1))}
    assert {name: one.free for name, one in found.items()} == {
        "1g.10gb": 3, "1g.10gb+me": 1, "1g.20gb": 2, "2g.20gb": 1, "3g.40gb": 1, "4g.40gb": 0, "7g.80gb": 0,
    }  # fmt: skip
    assert found["7g.80gb"].next_free_at == house.start + 4 * HOUR
    assert found["1g.10gb"].next_free_at is None


def test_free_over_time_counts_each_step(house):
    house.hold("3g.40gb", 4, hours=1.5)
    counts = free_over_time(house.pool, profile_of(house.pool, "3g.40gb"), house.start - HOUR, 4, HOUR)
    assert counts == [(house.start + n * HOUR, free) for n, free in ((-1, 2), (0, 1), (1, 1), (2, 2))]


def test_an_outlook_read_once_answers_all_but_what_could_move_without_another_query(house, django_assert_num_queries):
    house.hold("7g.80gb", 0)
    during = window(house.start, 2)
    house.ask("2g.20gb")
    with django_assert_num_queries(6):
        outlook = outlook_around(house.project, during, timezone.now())
    profile = profile_of(house.pool, "2g.20gb")
    # One, and in this test nine more for what its own transaction has set up: that may yet be taken back.
    with django_assert_num_queries(10):
        answer = preview(house.project, house.pool, profile, 1, during, outlook=outlook)
        assert answer.alternatives
        assert len(free_counts(house.pool, during, outlook=outlook)) == 7
        assert len(free_over_time(house.pool, profile, house.start, 48, HOUR, outlook=outlook)) == 48


@pytest.mark.parametrize("rows", [1, 25])
def test_queries_do_not_grow_with_rows(house, django_assert_max_num_queries, rows):
    make_budget(house.root, 10**9)
    house.hold("7g.80gb", 0)
    for day in range(rows):
        make_reservation(house.root, house.pool, "7g.80gb", window(house.start + (day + 1) * 24 * HOUR, 1),
                         places=((house.pool.gpus.get(), 0),))  # fmt: skip
    profile, during = profile_of(house.pool, "2g.20gb"), window(house.start, 2)
    house.ask("2g.20gb")
    with django_assert_max_num_queries(16 + 10):
        assert not preview(house.project, house.pool, profile, 1, during, owner=house.user).fits


@pytest.mark.parametrize("hours", [24 * 365 * 5, 0.001])
def test_a_window_beyond_the_limits_is_refused_before_anything_is_read_for_it(house, hours):
    make_budget(house.root, 10**9)
    answer = house.ask("1g.10gb", hours=hours)
    assert answer.reason.code == "window_refused" and answer.quota is None


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_held_a_preview_equals_booking_and_its_alternatives_can_be_booked(house, data):
    Lease.objects.all().delete()
    names = ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    for _ in range(data.draw(st.integers(0, 6))):
        profile = profile_of(house.pool, data.draw(st.sampled_from(names)))
        during = window(house.start + data.draw(st.integers(-2, 4)) * HOUR, data.draw(st.integers(1, 4)))
        answer = preview(house.project, house.pool, profile, 1, during, owner=house.user)
        if answer.fits:
            assert sizes_shown(answer) == sizes_booked(house.book(house.pool, profile, 1, during))
        else:
            with pytest.raises(ReservationRefused) as refused:
                house.book(house.pool, profile, 1, during)
            assert refused.value.code == answer.reason.code
            assert len(answer.alternatives) <= 3
            book_each(house, answer)
