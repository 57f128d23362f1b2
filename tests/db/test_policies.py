"""Policies: the tightest on the way counts, nothing is loosened, and booking, preview and change obey alike."""

import datetime as dt

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.audit.models import AuditEntry
from portal.quotas.errors import NotAllowed, PolicyLoosened, QuotaRefused
from portal.quotas.models import Policy
from portal.quotas.policies import policies_of, policy_of
from portal.quotas.policy_changes import set_policy
from portal.reservations.availability import outlook_around, preview
from portal.reservations.errors import PolicyRefused, ReservationRefused, WindowRefused
from portal.reservations.narrowing import change_policy
from portal.reservations.request import Request, request_again
from portal.reservations.rules import check_request
from portal.tenants.models import Role
from portal.workloads.drafts import WorkloadDraft
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
HOURS, DAYS = 3600, 86400
SECOND = dt.timedelta(seconds=1)


class House:
    """northquay > vision-lab > segmentation with quota for all of two H100; requests are for tomorrow."""

    def __init__(self) -> None:
        self.root, self.team, self.project = make_org()
        self.pool = make_pool_with_gpus("H100", gpus=2, name="H100 MIG")
        make_quota(self.root, self.pool, 100)
        self.admin = make_user(tenant=self.root, role=Role.ADMIN)
        self.owner = make_user(tenant=self.project)
        self.now = timezone.now()
        self.start = self.now.replace(minute=0, second=0, microsecond=0) + 24 * HOUR

    def set(self, tenant, **fields) -> Policy:
        return set_policy(actor=self.admin, tenant=tenant, **fields)

    def ask(self, *, seconds=2 * HOURS, start=None, profile="1g.10gb", ranks=1, pool=None, image="", owner=None):
        """Booking's rules, after making sure that the preview gives the same answer."""
        pool, owner, start = pool or self.pool, owner or self.owner, start or self.start
        during = DateTimeTZRange(start, start + seconds * SECOND, "[)")
        shape = profile_of(pool, profile)
        draft = WorkloadDraft("train", image, ("train",))
        seen = preview(self.project, pool, shape, ranks, during, owner=owner, image=image, now=self.now)
        try:
            request = Request(owner, owner, self.project, pool, shape, ranks, during, draft)
            allowed = check_request(request, self.now)
        except ReservationRefused as refusal:
            assert seen.reason is not None
            assert (seen.reason.code, seen.reason.message) == (refusal.code, refusal.message)
            raise
        assert seen.fits
        return allowed

    def hold(self, profile, start, place=0, tenant=None, owner=None, pool=None, hours=2):
        device = (pool or self.pool).gpus.first()
        return make_reservation(tenant or self.project, pool or self.pool, profile, window(start, hours),
                                places=((device, place),), owner=owner or self.owner)  # fmt: skip


@pytest.fixture
def house():
    return House()


def test_without_any_policy_nothing_is_limited_and_the_protected_time_is_the_setting_s(house, settings):
    settings.PROTECTED_SECONDS = 1234
    policy = policy_of(house.project)
    assert policy.longest_window_seconds is policy.pool_ids is policy.images is None
    assert (policy.protected_seconds, policy.origins) == (1234, {})


def test_the_tightest_on_the_way_counts_and_its_tenant_is_named(house):
    house.set(house.root, longest_window_seconds=7 * DAYS, approval_above_slice_seconds=100, protected_seconds=7200,
              profiles=["1g.10gb", "7g.80gb"], images=["registry/*"])  # fmt: skip
    house.set(house.team, longest_window_seconds=2 * DAYS, profiles=["1g.10gb"], images=["registry/team/*"])
    house.set(house.project, protected_seconds=600, book_ahead_seconds=DAYS)
    policy = policy_of(house.project)
    assert (policy.longest_window_seconds, policy.book_ahead_seconds) == (2 * DAYS, DAYS)
    assert (policy.approval_above_slice_seconds, policy.protected_seconds) == (100, 600)
    assert (policy.profiles, policy.images) == ({"1g.10gb"}, ("registry/team/*",))
    assert {name: tenant.name for name, tenant in policy.origins.items()} == {
        "longest_window_seconds": "vision-lab", "profiles": "vision-lab", "images": "vision-lab",
        "approval_above_slice_seconds": "northquay", "protected_seconds": "segmentation",
        "book_ahead_seconds": "segmentation",
    }  # fmt: skip
    assert policy_of(house.root).protected_seconds == 7200


def test_a_tighter_policy_above_counts_although_the_one_below_was_set_looser_before(house):
    house.set(house.project, longest_window_seconds=5 * DAYS, profiles=["1g.10gb", "2g.20gb"])
    house.set(house.root, longest_window_seconds=DAYS, profiles=["2g.20gb", "3g.40gb"])
    policy = policy_of(house.project)
    assert (policy.longest_window_seconds, policy.profiles) == (DAYS, {"2g.20gb"})
    assert policy.origins["longest_window_seconds"] == house.root


def test_policies_of_many_tenants_cost_one_query(house, django_assert_num_queries):
    teams = [make_tenant(f"team {number}", house.root) for number in range(60)]
    for team in teams:
        house.set(team, longest_window_seconds=HOURS)
    with django_assert_num_queries(1):
        assert {policy.longest_window_seconds for policy in policies_of(teams).values()} == {HOURS}


LOOSER = {
    "longest_window_seconds": (7 * DAYS, 10 * DAYS,
        "The longest window of northquay is 7 days; vision-lab below it cannot have 10 days."),
    "book_ahead_seconds": (14 * DAYS, 15 * DAYS,
        "northquay books at most 14 days ahead; vision-lab below it cannot have 15 days."),
    "most_weight_each": (7, 8, "A person of northquay holds at most 7 at once; vision-lab below it cannot have 8."),
    "approval_above_slice_seconds": (48 * HOURS, 49 * HOURS,
        "northquay wants approval above 48 slice-h; vision-lab below it cannot have 49 slice-h."),
    "protected_seconds": (600, 601, "northquay protects a run for 10 min; vision-lab below it cannot have 601 s."),
    "profiles": (["1g.10gb"], ["1g.10gb", "2g.20gb"],
        "northquay does not allow 2g.20gb; vision-lab below it cannot either."),
    "images": (["registry/a/*"], ["registry/a/x:1", "registry/*"],
        "northquay does not allow registry/*; vision-lab below it cannot either."),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOSER)
def test_nothing_is_loosened_below_and_the_refusal_says_the_number(house, name):
    above, looser, sentence = LOOSER[name]
    house.set(house.root, **{name: above})
    with pytest.raises(PolicyLoosened) as refused:
        house.set(house.team, **{name: looser})
    assert (str(refused.value), refused.value.field) == (sentence, name)
    assert not Policy.objects.filter(tenant=house.team).exists()
    house.set(house.team, **{name: above})
    house.set(house.team, **{name: None})
    assert getattr(Policy.objects.get(tenant=house.team), name) is None


def test_a_pool_that_is_not_allowed_above_is_not_allowed_below(house):
    other = make_pool_with_gpus("A100", name="A100 MIG")
    house.set(house.root, pool_ids=[house.pool.pk])
    with pytest.raises(PolicyLoosened, match="northquay does not allow A100 MIG; vision-lab"):
        house.set(house.team, pool_ids=[other.pk])


def test_below_the_root_nobody_protects_for_longer_than_the_setting_says(house):
    with pytest.raises(PolicyLoosened, match="Berth protects a run for 30 min; vision-lab cannot have 1 h"):
        house.set(house.team, protected_seconds=3600)
    house.set(house.root, protected_seconds=3600)
    house.set(house.team, protected_seconds=3600)


@pytest.mark.parametrize("fields", [
    {"longest_window_seconds": -1}, {"book_ahead_seconds": 10**18}, {"most_weight_each": 10**18}, {"profiles": []},
    {"approval_above_slice_seconds": 10**18}, {"profiles": ["9g.900gb"]}, {"pool_ids": [987_654_321]},
    {"images": ["a b"]}, {"images": ["*x"]}, {"images": [f"image-{number}" for number in range(101)]},
], ids=str)  # fmt: skip
def test_what_makes_no_sense_is_refused_and_nothing_is_stored(house, fields):
    with pytest.raises(QuotaRefused) as refused:
        house.set(house.root, **fields)
    assert refused.value.field == next(iter(fields))
    assert not Policy.objects.exists()


def test_who_sets_limits_sets_policies_and_every_change_is_audited(house):
    lead = make_user(tenant=house.team, role=Role.LEAD)
    with pytest.raises(NotAllowed):
        set_policy(actor=lead, tenant=house.team, longest_window_seconds=HOURS)
    set_policy(actor=lead, tenant=house.project, longest_window_seconds=HOURS, profiles=["2g.20gb", "1g.10gb"])
    set_policy(actor=lead, tenant=house.project, longest_window_seconds=2 * HOURS, profiles=["1g.10gb", "2g.20gb"])
    set_policy(actor=lead, tenant=house.project, longest_window_seconds=2 * HOURS)
    rows = AuditEntry.objects.filter(action="policy.set").order_by("id")
    assert [(row.before, row.after) for row in rows] == [
        ({"longest_window_seconds": None, "profiles": None},
         {"longest_window_seconds": HOURS, "profiles": ["1g.10gb", "2g.20gb"]}),
        ({"longest_window_seconds": HOURS}, {"longest_window_seconds": 2 * HOURS}),
    ]  # fmt: skip


@pytest.mark.case("V-13")
def test_the_longest_window_is_taken_to_the_second_and_one_more_is_refused_with_the_limit(house):
    house.set(house.root, longest_window_seconds=4 * HOURS)
    house.ask(seconds=4 * HOURS)
    with pytest.raises(WindowRefused, match="The longest window of northquay is 4 h") as refused:
        house.ask(seconds=4 * HOURS + 1)
    assert refused.value.evidence["longest_seconds"] == 4 * HOURS


def test_the_latest_start_is_taken_to_the_second_and_one_later_is_refused(house):
    house.set(house.team, book_ahead_seconds=DAYS)
    house.ask(start=house.now + dt.timedelta(days=1))
    with pytest.raises(WindowRefused, match="vision-lab books at most 1 day ahead"):
        house.ask(start=house.now + dt.timedelta(days=1) + SECOND)


def test_what_has_started_may_be_extended_however_far_ahead_others_may_book(house):
    house.set(house.root, book_ahead_seconds=0, longest_window_seconds=4 * HOURS)
    running = house.hold("1g.10gb", house.now - HOUR)
    during = DateTimeTZRange(running.during.lower, running.during.lower + 4 * HOUR, "[)")
    check_request(request_again(running, during, house.owner), house.now)
    with pytest.raises(WindowRefused, match="The longest window of northquay"):
        longer = DateTimeTZRange(during.lower, during.upper + SECOND, "[)")
        check_request(request_again(running, longer, house.owner), house.now)


def test_pools_profiles_and_images_outside_the_policy_are_refused_with_what_is_allowed(house):
    other = make_pool_with_gpus("A100", name="A100 MIG")
    make_quota(house.root, other, 100)
    images = ["registry/*", "ubuntu:24.04"]
    house.set(house.root, pool_ids=[house.pool.pk], profiles=["1g.10gb", "2g.20gb"], images=images)
    with pytest.raises(PolicyRefused, match="northquay does not allow A100 MIG"):
        house.ask(pool=other, profile="1g.10gb", image="ubuntu:24.04")
    with pytest.raises(PolicyRefused, match="northquay does not allow 3g.40gb. Allowed: 1g.10gb, 2g.20gb."):
        house.ask(profile="3g.40gb", image="ubuntu:24.04")
    with pytest.raises(PolicyRefused, match="does not allow the image ubuntu:22.04. Allowed: registry/") as no:
        house.ask(image="ubuntu:22.04")
    assert (no.value.code, no.value.status, no.value.field) == ("policy_refused", 409, "workload")
    with pytest.raises(PolicyRefused, match="this workload names none"):
        house.ask(image="")
    house.ask(image="ubuntu:24.04")
    house.ask(image="registry/anything:1", profile="2g.20gb")


def test_a_person_holds_at_most_so_much_at_once_at_the_peak_of_the_window_in_the_subtree(house):
    house.set(house.team, most_weight_each=3)
    house.hold("1g.10gb", house.start)
    house.hold("1g.10gb", house.start + 2 * HOUR, place=1)
    house.hold("4g.40gb", house.start, tenant=house.root, place=4)  # not below vision-lab
    house.ask(seconds=4 * HOURS, profile="2g.20gb")
    with pytest.raises(PolicyRefused) as refused:
        house.ask(seconds=4 * HOURS, profile="3g.40gb")
    assert refused.value.evidence == {"tenant": "vision-lab", "most": 3, "held": 1, "asked": 3}
    house.ask(seconds=4 * HOURS, profile="3g.40gb", owner=make_user(tenant=house.project))


def test_what_a_person_holds_counts_in_all_pools_and_below_each_tenant_that_limits_it(house):
    other = make_pool_with_gpus("A100", name="A100 MIG")
    make_quota(house.root, other, 100)
    house.set(house.root, most_weight_each=4)
    house.set(house.project, most_weight_each=2)
    sibling = make_tenant("robotics", house.root)
    house.hold("3g.40gb", house.start, tenant=sibling, pool=house.pool)
    house.ask(pool=other, profile="1g.10gb")
    with pytest.raises(PolicyRefused, match="One person of northquay holds at most 4") as refused:
        house.ask(pool=other, profile="2g.20gb")
    assert refused.value.evidence["held"] == 3
    with pytest.raises(PolicyRefused, match="One person of segmentation holds at most 2"):
        house.ask(start=house.start + 24 * HOUR, profile="3g.40gb")


def test_a_reservation_that_moves_does_not_count_against_itself(house):
    house.set(house.root, most_weight_each=3)
    mine = house.hold("3g.40gb", house.start)
    check_request(request_again(mine, window(house.start + HOUR, 2), house.owner), house.now)


def test_ways_on_after_a_policy_keep_to_it(house):
    house.set(house.root, profiles=["1g.10gb"])
    during = window(house.start, 2)
    answer = preview(house.project, house.pool, profile_of(house.pool, "3g.40gb"), 1, during, owner=house.owner)
    assert answer.reason is not None and answer.reason.code == "policy_refused"
    assert [(one.kind, one.profile.name) for one in answer.alternatives] == [("smaller", "1g.10gb")]


def test_a_what_if_costs_no_query_and_the_outlook_one_more_where_persons_are_limited(house, django_assert_num_queries):
    during, shape = window(house.start, 2), profile_of(house.pool, "1g.10gb")
    with CaptureQueriesContext(connection) as plain:
        outlook_around(house.project, during, house.now, owner_id=house.owner.pk)
    house.set(house.root, most_weight_each=3, longest_window_seconds=DAYS)
    with django_assert_num_queries(len(plain) + 1):
        outlook = outlook_around(house.project, during, house.now, owner_id=house.owner.pk)
    with django_assert_num_queries(0):
        assert preview(house.project, house.pool, shape, 3, during, outlook=outlook).fits
        assert not preview(house.project, house.pool, shape, 4, during, outlook=outlook).fits


@pytest.mark.case("V-22")
def test_a_tighter_policy_lists_what_it_no_longer_takes(house):
    kept = house.hold("1g.10gb", house.start, hours=2)
    long = house.hold("1g.10gb", house.start, hours=5, place=1)
    late = house.hold("1g.10gb", house.start + HOUR, hours=2, place=2)
    _policy, uncovered = change_policy(actor=house.admin, tenant=house.team, longest_window_seconds=4 * HOURS)
    assert [(one.reservation, one.reason) for one in uncovered] == [(long, "The longest window of vision-lab is 4 h.")]
    _policy, uncovered = change_policy(actor=house.admin, tenant=house.team, most_weight_each=2)
    assert [(one.reservation, one.reason) for one in uncovered] == [
        (late, "One person of vision-lab holds at most 2 slices at once.")
    ]
    assert change_policy(actor=house.admin, tenant=house.team, most_weight_each=None)[1] == []
    assert {kept.state, long.state, late.state} == {"confirmed"}
