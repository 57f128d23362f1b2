"""What people expect of a reservation portal: access, windows, grants and roles, by the numbers of the list (V-n).

A grant is what quota and policy give a tenant; a group is a tenant. Moving, ending and editing are in test_moving.
"""

import datetime as dt
import json
import zoneinfo

import pytest
from django.test import Client
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.models import OpenHours, Quota
from portal.reservations.availability import free_counts
from portal.reservations.booking import book_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.errors import NoAccess, PolicyRefused, ReservationRefused, StateConflict, WindowRefused
from portal.reservations.models import LeaseState, Reservation, State
from portal.reservations.moving import change_window
from portal.tenants.models import Role
from portal.tenants.people import accept_invitation, invite, remove_member
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
SECOND, DAY = dt.timedelta(seconds=1), 24 * HOUR
RUN = WorkloadDraft("train", command=("train",))


class Port:
    """northquay > vision-lab with a member, one H100, quota for it, and a full hour tomorrow."""

    def __init__(self) -> None:
        self.root, self.team, _project = make_org()
        self.pool = make_pool_with_gpus("H100", gpus=1)
        self.quota = make_quota(self.root, self.pool, 100)
        self.member = make_user("rosa", self.team)
        self.start = timezone.now().replace(minute=0, second=0, microsecond=0) + DAY
        self.http = Client()
        self.http.force_login(self.member)

    def book(self, start=None, hours=1.0, profile="1g.10gb", owner=None, during=None, tenant=None) -> Reservation:
        owner, during = owner or self.member, during or window(start or self.start, hours)
        return book_reservation(
            created_by=owner, owner=owner, tenant=tenant or self.team, pool=self.pool,
            profile=profile_of(self.pool, profile), ranks=1, during=during, workload=RUN)  # fmt: skip

    def refuses(self, *kinds, **asked) -> ReservationRefused:
        """Booking refuses and stores nothing."""
        before = Reservation.objects.count()
        with pytest.raises(kinds or ReservationRefused) as refused:
            self.book(**asked)
        assert Reservation.objects.count() == before
        return refused.value

    def valid(self, first: float | None, last: float | None, quota: Quota | None = None) -> None:
        bounds = [None if days is None else self.start + days * DAY for days in (first, last)]
        Quota.objects.filter(pk=(quota or self.quota).pk).update(valid=DateTimeTZRange(*bounds, "[)"))

    def post(self, **changes):
        asked = {"tenant": self.team.pk, "pool": self.pool.pk, "profile": "1g.10gb", "start": self.start.isoformat(),
                 "end": (self.start + HOUR).isoformat(), "workload": {"name": "x", "command": ["x"]}}  # fmt: skip
        return self.http.post("/api/v1/reservations/", json.dumps(asked | changes), content_type="application/json")


@pytest.fixture
def port() -> Port:
    return Port()


@pytest.mark.case("V-1")
def test_without_a_grant_on_any_pool_there_is_no_access_and_nothing_is_stored(port):
    port.quota.delete()
    assert port.refuses(NoAccess).code == "no_access"
    make_quota(port.root, port.pool, 7)
    assert port.refuses(NoAccess, owner=make_user("stranger")).code == "no_access"


@pytest.mark.case("V-2")
def test_what_a_grant_covers_is_created_and_read_back_by_its_id(port):
    port.valid(-1, 1)
    made = port.post()
    assert made.status_code == 201
    shown = port.http.get(f"/api/v1/reservations/{made.json()['id']}/").json()
    assert dt.datetime.fromisoformat(shown["start"]) == port.start and shown["state"] == "confirmed"


@pytest.mark.case("V-3")
def test_a_grant_without_an_end_covers_what_is_far_in_the_future(port):
    Pool.objects.filter(pk=port.pool.pk).update(book_ahead_seconds=4000 * 86400)
    port.pool.refresh_from_db()
    port.valid(0, None)
    assert port.book(port.start + 3650 * DAY).state == State.CONFIRMED


@pytest.mark.case("V-4")
def test_a_grant_that_covers_a_part_is_refused_naming_what_it_does_not_cover(port):
    port.valid(None, 1)
    refusal = port.refuses(NoAccess, start=port.start + DAY - HOUR, hours=2)
    assert refusal.evidence["uncovered_from"] == (port.start + DAY).isoformat()
    assert refusal.evidence["uncovered_until"] == (port.start + DAY + HOUR).isoformat()


@pytest.mark.case("V-5")
def test_two_grants_that_meet_cover_a_window_across_the_seam(port):
    port.valid(None, 1)
    port.valid(1, None, Quota.objects.create(
        tenant=port.root, pool=port.pool, limit=100, valid=DateTimeTZRange(port.start + 400 * DAY, None, "[)")))
    assert port.book(port.start + DAY - HOUR, hours=2).state == State.CONFIRMED


@pytest.mark.case("V-6")
def test_a_window_that_leaves_the_hours_of_the_grant_is_refused_naming_them(port):
    type(port.root).objects.filter(pk=port.root.pk).update(time_zone="Europe/Berlin")
    OpenHours.objects.create(quota=port.quota, opens=8 * 60, closes=10 * 60)
    opens = port.start.astimezone(zoneinfo.ZoneInfo("Europe/Berlin")).replace(hour=8) + DAY
    port.book(opens, hours=2)
    for during in (window(opens - SECOND, 1), DateTimeTZRange(opens, opens + 2 * HOUR + SECOND, "[)")):
        assert "08:00–10:00 (Europe/Berlin)" in port.refuses(PolicyRefused, during=during).message


@pytest.mark.case("V-7")
def test_a_grant_of_other_weekdays_counts_as_inactive(port):
    days = OpenHours.objects.create(quota=port.quota, weekdays=127 ^ 1 << port.start.weekday(), opens=0, closes=1440)
    assert "may use" in port.refuses(PolicyRefused).message
    OpenHours.objects.filter(pk=days.pk).update(weekdays=1 << port.start.weekday())
    port.book()


@pytest.mark.case("V-8")
def test_any_one_of_several_schedules_is_enough(port):
    today = 1 << port.start.weekday()
    OpenHours.objects.create(quota=port.quota, weekdays=127 ^ today, opens=0, closes=1440)
    port.refuses(PolicyRefused)
    OpenHours.objects.create(quota=port.quota, weekdays=today, opens=0, closes=1440)
    port.book()


@pytest.mark.case("V-9")
def test_a_grant_to_a_tenant_is_its_members_and_no_longer_who_left(port):
    port.book()
    lead = make_user(tenant=port.team, role=Role.ADMIN)
    remove_member(actor=lead, tenant=port.team, person=port.member)
    port.refuses(NoAccess)


@pytest.mark.case("V-10")
def test_a_new_gpu_of_the_pool_is_covered_at_once(port):
    port.book(profile="7g.80gb")
    assert port.refuses(profile="7g.80gb").code == "no_capacity"
    gpu = port.pool.gpus.get()
    gpu.pk, gpu.uuid, gpu.index = None, "GPU-second", 1
    gpu.save()
    assert port.book(profile="7g.80gb").leases.get().gpu.uuid == "GPU-second"


@pytest.mark.case("V-11", "R-01")
def test_a_start_in_the_past_is_refused_and_one_of_a_minute_ago_is_now(port):
    now = timezone.now()
    assert port.refuses(WindowRefused, start=now - 62 * SECOND).field == "start"
    assert port.book(now - 55 * SECOND).state == State.CONFIRMED
    assert port.post(start=(now - HOUR).isoformat()).status_code == 422


@pytest.mark.case("V-12")
@pytest.mark.parametrize("seconds", [0, -1, -86400])
def test_an_end_at_or_before_the_start_is_refused(port, seconds):
    answer = port.post(end=(port.start + seconds * SECOND).isoformat())
    assert (answer.status_code, answer.json()["evidence"]["field"]) == (422, "end")
    assert not Reservation.objects.exists()


@pytest.mark.case("V-13")
def test_the_shortest_and_the_longest_window_are_kept_to_the_second(port):
    shortest, longest = port.pool.shortest_window_seconds, port.pool.longest_window_seconds
    for seconds in (shortest, longest):
        release_reservation(reservation=port.book(hours=seconds / 3600), actor=port.member)
    for seconds, named in ((shortest - 1, "shortest_seconds"), (longest + 1, "longest_seconds")):
        during = DateTimeTZRange(port.start, port.start + seconds * SECOND, "[)")
        assert port.refuses(WindowRefused, during=during).evidence[named] in (shortest, longest)


# Hours before and after the start of a booked hour: inside, around, over its start, over its end.
OVERLAPS = {"inside": (0.25, 0.75), "around": (-1, 2), "over its start": (-0.5, 0.5), "over its end": (0.5, 1.5)}


@pytest.mark.case("V-14")
@pytest.mark.parametrize("name", OVERLAPS)
def test_a_booked_slice_is_refused_however_another_window_lies_over_it(port, name):
    port.book(profile="7g.80gb")
    first, last = OVERLAPS[name]
    during = DateTimeTZRange(port.start + first * HOUR, port.start + last * HOUR, "[)")
    assert port.refuses(during=during, profile="7g.80gb").code == "no_capacity"


@pytest.mark.case("V-14")
def test_windows_that_only_touch_are_accepted(port):
    port.book(profile="7g.80gb")
    port.book(port.start - HOUR, profile="7g.80gb")
    port.book(port.start + HOUR, profile="7g.80gb")


@pytest.mark.case("V-15")
@pytest.mark.parametrize("name", OVERLAPS)
def test_a_cancelled_reservation_stands_in_nobody_s_way(port, name):
    release_reservation(reservation=port.book(profile="7g.80gb"), actor=port.member)
    first, last = OVERLAPS[name]
    port.book(during=DateTimeTZRange(port.start + first * HOUR, port.start + last * HOUR, "[)"), profile="7g.80gb")


@pytest.mark.case("V-16")
def test_what_runs_is_listed_and_nothing_else(port):
    gpu, now = port.pool.gpus.get(), timezone.now()
    rows = {
        state: make_reservation(
            port.team, port.pool, "1g.10gb", window(now - HOUR, 2), places=((gpu, place),), state=state,
            owner=port.member, lease_state=LeaseState.ACTIVE if state == State.RUNNING else LeaseState.ENDED)
        for place, state in enumerate([State.RUNNING, State.ENDED, State.CANCELLED])
    }  # fmt: skip
    port.book()
    answer = port.http.get("/api/v1/reservations/", {"state": "running"}).json()
    assert [one["id"] for one in answer["results"]] == [rows[State.RUNNING].pk]


@pytest.mark.case("V-23")
@pytest.mark.parametrize("time", ["", "soon", "2027-02-30T00:00:00Z", "2027-01-01T00:00:00", None, 7, "\0", [], "now"])
@pytest.mark.parametrize("side", ["start", "end"])
def test_a_malformed_time_is_bad_input_and_never_stored(port, side, time):
    assert port.post(**{side: time}).status_code == 422
    assert not Reservation.objects.exists()


@pytest.mark.case("V-25")
def test_who_comes_by_an_invitation_joins_its_tenant_and_who_is_in_none_can_reserve_nothing(port):
    lead = make_user(tenant=port.team, role=Role.LEAD)
    _invitation, link = invite(actor=lead, tenant=port.team, email="new@example.org", role=Role.MEMBER)
    token = link.rstrip("/").rsplit("/", 1)[-1]
    person = accept_invitation(token=token, name="New", password="correct horse battery staple")
    assert list(person.memberships.values_list("tenant", "role")) == [(port.team.pk, "member")]
    port.book(owner=person)
    port.refuses(NoAccess, owner=make_user("nobody"))
    port.http.force_login(make_user("nobody"))
    assert port.post().status_code == 404
    assert port.http.get("/reserve/").status_code == 403


@pytest.mark.case("V-26")
def test_a_job_in_the_past_or_that_ends_before_it_starts_is_refused_and_a_running_one_keeps_its_start(port):
    past, end = (port.start - 2 * DAY).isoformat(), (port.start - HOUR).isoformat()
    assert (port.post(start=past).status_code, port.post(end=end).status_code) == (422, 422)
    assert not Reservation.objects.exists()
    running = make_reservation(
        port.team, port.pool, "1g.10gb", window(timezone.now() - HOUR, 2), places=((port.pool.gpus.get(), 0),),
        owner=port.member, state=State.RUNNING, lease_state=LeaseState.ACTIVE)  # fmt: skip
    with pytest.raises(StateConflict):
        change_window(reservation=running, during=window(port.start), actor=port.member)


@pytest.mark.case("V-26", "V-20")
@pytest.mark.parametrize("verb, path", [("get", ""), ("post", "release/"), ("post", "cancel/"), ("get", "log/")])
def test_a_job_of_others_is_not_there_for_who_does_not_lead_them(port, verb, path):
    booked = port.book()
    stranger = make_user(tenant=make_tenant("robotics", port.root))
    port.http.force_login(stranger)
    answer = getattr(port.http, verb)(f"/api/v1/reservations/{booked.pk}/{path}")
    assert answer.status_code == 404 and "train" not in answer.content.decode()


@pytest.mark.case("R-19", "Q-07")
@pytest.mark.parametrize(
    "count", [-1, 0, 1.5, 2**31, 2**63, 10**18, "NaN", "7 ", "1_0", "７", "", None, True], ids=repr
)
def test_a_count_that_is_no_count_is_refused_as_bad_input_and_others_see_no_change(port, count):
    before = [(one.profile.name, one.free) for one in free_counts(port.pool, window(port.start))]
    answer = port.post(ranks=count)
    assert answer.status_code == 422, answer.content
    assert not Reservation.objects.exists()
    assert [(one.profile.name, one.free) for one in free_counts(port.pool, window(port.start))] == before
