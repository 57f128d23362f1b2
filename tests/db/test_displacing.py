"""Guarantees over time: what is idle is borrowed, and who borrows gives way to who is guaranteed."""

import datetime as dt

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.audit.models import AuditEntry
from portal.inventory.models import Gpu
from portal.notices.models import Notice
from portal.quotas.models import Quota
from portal.quotas.policy_changes import set_policy
from portal.reservations.availability import preview
from portal.reservations.changing import release_reservation
from portal.reservations.dispatch import desired_document
from portal.reservations.errors import NoCapacity, QuotaExceeded, ReservationRefused
from portal.reservations.models import Approval, Lease, Reservation, State, Wait
from portal.reservations.spending_sums import Asked, sums_of
from portal.reservations.sweeps import freeze_due
from tests.db.house import MINUTE, House, bound, places, span, tell, windows
from tests.factories import HOUR, make_quota, make_reservation, make_tenant, make_user, profile_of

pytestmark = pytest.mark.django_db
SECOND = dt.timedelta(seconds=1)
NOTICE = settings.DISPLACE_NOTICE
PROTECTED = dt.timedelta(seconds=settings.PROTECTED_SECONDS)


class Shared(House):
    """vision-lab and robotics share two GPUs: each is guaranteed one and may hold both."""

    def __init__(self) -> None:
        super().__init__(limit=14)
        self.other = make_tenant("robotics", self.root)
        self.rival = make_user("rival", self.other)
        for tenant in (self.team, self.other):
            make_quota(tenant, self.pool, 14, guaranteed=7)

    def borrow(self, profile="7g.80gb", **more) -> Reservation:
        """By vision-lab, beyond what it is guaranteed."""
        borrowed = self.book(profile, **more)
        assert borrowed.borrowed
        return borrowed

    def claim(self, profile="7g.80gb", start=None, hours=1.0, **more) -> Reservation:
        claimed = self.book(profile, start=start, hours=hours, tenant=self.other, owner=self.rival, **more)
        assert not claimed.borrowed
        return claimed


@pytest.fixture
def house():
    return Shared()


def fresh(reservation: Reservation) -> Reservation:
    return Reservation.objects.get(pk=reservation.pk)


def rest_of(reservation: Reservation) -> Reservation:
    return Reservation.objects.select_related("wait", "workload").get(continues=reservation)


def test_up_to_its_guarantee_a_tenant_borrows_nothing_and_above_it_does(house):
    assert not house.book("4g.40gb").borrowed
    assert not house.book("3g.40gb").borrowed
    assert house.book("1g.10gb").borrowed
    assert not house.book("7g.80gb", start=house.start + HOUR).borrowed


def test_guarantees_of_sub_teams_are_not_the_teams_own(house):
    make_quota(house.project, house.pool, 7, guaranteed=3)
    assert not house.book("4g.40gb").borrowed
    assert house.book("1g.10gb").borrowed
    assert not house.book("3g.40gb", tenant=house.project, owner=make_user(tenant=house.project)).borrowed


def test_the_share_counts_stretch_by_stretch_where_quotas_change_in_the_window(house):
    """The sub-team's guarantee is renewed in the middle: it is never counted twice."""
    middle = house.start + HOUR
    for valid in (DateTimeTZRange(None, middle, "[)"), DateTimeTZRange(middle, None, "[)")):
        Quota.objects.create(tenant=house.project, pool=house.pool, limit=7, guaranteed=3, valid=valid)
    assert not house.book("4g.40gb", hours=2).borrowed
    Quota.objects.filter(valid__startswith=middle).update(guaranteed=4)
    assert house.book("4g.40gb", start=house.start + 20 * HOUR).borrowed


def test_a_claim_takes_out_the_youngest_borrower_that_is_enough(house):
    house.book("7g.80gb")
    elder, younger = house.borrow("3g.40gb"), house.borrow("4g.40gb")
    claimed = house.claim("3g.40gb")
    assert fresh(elder).state == State.CONFIRMED
    gone = fresh(younger)
    assert (gone.state, gone.end_reason) == (State.ENDED, "displaced")
    assert len(places(claimed)) == 1 and not bound(gone)


def test_who_need_not_go_stays_although_it_is_younger(house):
    house.book("7g.80gb")
    elder, younger = house.borrow("4g.40gb"), house.borrow("1g.10gb")
    house.claim("4g.40gb")
    assert (fresh(elder).state, fresh(younger).state) == (State.ENDED, State.CONFIRMED)


def test_the_displaced_one_is_told_credited_and_waits_in_the_queue(house):
    house.book("7g.80gb", hours=2)
    borrowed = house.borrow(hours=2)
    promised = [Asked(house.team.path, house.start, house.start + 2 * HOUR)]
    before = sums_of(promised, house.now)[0].committed
    claimed = house.claim()
    assert before - sums_of(promised, house.now)[0].committed == 7 * 2 * 3600
    rest = rest_of(borrowed)
    assert (rest.state, rest.wait.seconds, rest.wait.reason) == (State.QUEUED, 2 * 3600, "displaced")
    assert rest.workload.pk != borrowed.workload_id and rest.workload.command == borrowed.workload.command
    told = Notice.objects.get(user=house.owner, kind="displaced")
    assert (told.facts["credited_slice_seconds"], told.facts["rest"]) == (7 * 2 * 3600, rest.number)
    entry = AuditEntry.objects.get(action="reservation.displaced")
    assert (entry.after["by"], entry.after["rest"]) == (claimed.number, rest.number)


def running_borrower(house, hours=6.0) -> Reservation:
    house.run(house.book("7g.80gb", start=house.now, hours=hours))
    return house.run(house.borrow(start=house.now, hours=hours))


def test_a_running_borrower_is_cut_short_where_the_claim_begins_and_its_node_is_told(house):
    borrowed = running_borrower(house)
    at = house.now + 3 * HOUR
    claimed = house.claim(start=at)
    borrowed = fresh(borrowed)
    assert (borrowed.state, borrowed.during.upper) == (State.RUNNING, at)
    assert windows(borrowed) == {(house.now, at)} and places(claimed) == places(borrowed)
    document = desired_document(bound(borrowed)[0].gpu.node_id)
    assert at.timestamp() in {each.ends_at for each in document.leases}
    assert Wait.objects.get().seconds == 3 * 3600
    (lease,) = bound(borrowed)
    tell(lease, "freed", at, received_at=at, reason="window_over")
    assert (fresh(borrowed).state, fresh(borrowed).end_reason) == (State.ENDED, "displaced")


def test_nobody_is_displaced_within_the_notice_nor_within_the_protected_minimum(house):
    borrowed = running_borrower(house)
    earliest = max(NOTICE, PROTECTED)
    for start in (house.now, house.now + NOTICE - MINUTE, house.now + earliest - SECOND):
        with pytest.raises(ReservationRefused):
            house.claim(start=start)
    house.claim(start=house.now + earliest + MINUTE)
    assert fresh(borrowed).during.upper == house.now + earliest + MINUTE


def test_the_protected_minimum_is_the_borrowers_policy(house):
    set_policy(actor=house.admin, tenant=house.root, protected_seconds=2 * 3600)
    borrowed = running_borrower(house)
    with pytest.raises(ReservationRefused):
        house.claim(start=house.now + 2 * HOUR - SECOND)
    house.claim(start=house.now + 2 * HOUR + MINUTE)
    assert fresh(borrowed).state == State.RUNNING


def test_what_is_borrowed_is_frozen_no_earlier_than_the_notice(house):
    house.book("7g.80gb", start=house.now + HOUR)
    borrowed = house.borrow(start=house.now + HOUR)
    assert bound(borrowed)[0].frozen_at is None
    assert freeze_due(house.now + HOUR - NOTICE - SECOND) == 0
    house.claim(start=house.now + HOUR)
    assert fresh(borrowed).state == State.ENDED
    house.book("7g.80gb", start=house.now + 3 * HOUR)
    again = house.borrow(start=house.now + 3 * HOUR)
    assert freeze_due(house.now + 3 * HOUR - NOTICE) >= 1
    assert bound(again)[0].frozen_at is not None


def test_nobody_guaranteed_ever_gives_way(house):
    house.book("7g.80gb")
    Quota.objects.filter(tenant=house.other).update(guaranteed=14)  # promised twice: an operator's mistake
    house.claim()
    with pytest.raises(ReservationRefused):
        house.claim()
    assert set(Reservation.objects.values_list("state", flat=True)) == {State.CONFIRMED}


def test_who_borrows_displaces_nobody(house):
    house.book("7g.80gb")
    house.borrow()
    with pytest.raises(QuotaExceeded):
        house.book("1g.10gb")
    house.root.quotas.update(limit=100)
    Quota.objects.filter(tenant=house.team).update(limit=100)
    with pytest.raises(NoCapacity):
        house.book("1g.10gb")


def test_a_borrower_whose_guarantee_is_free_by_now_is_promoted_before_it_is_displaced(house):
    first = house.book("7g.80gb")
    elder, younger = house.borrow("4g.40gb"), house.borrow("3g.40gb")
    release_reservation(reservation=first, actor=house.owner)
    claimed = house.claim()
    assert len(places(claimed)) == 1
    assert [fresh(one).state for one in (elder, younger)] == [State.CONFIRMED] * 2
    house.root.quotas.update(limit=100)
    blocker = house.book("7g.80gb", start=house.start + 5 * HOUR)
    borrowed = [house.borrow("4g.40gb", start=house.start + 5 * HOUR) for _ in range(1)]
    release_reservation(reservation=blocker, actor=house.owner)
    late = house.borrow("7g.80gb", start=house.start + 5 * HOUR)
    house.claim(start=house.start + 5 * HOUR)
    assert not fresh(borrowed[0]).borrowed, "the older one takes what became free"
    assert fresh(late).state == State.ENDED
    assert AuditEntry.objects.filter(action="reservation.guaranteed", subject=borrowed[0].number).count() == 1


def test_a_new_request_does_not_take_the_guarantee_that_an_older_borrower_waits_for(house):
    first = house.book("7g.80gb")
    elder = house.borrow()
    release_reservation(reservation=first, actor=house.owner)
    newer = house.book("7g.80gb")
    assert (fresh(elder).borrowed, newer.borrowed) == (False, True)


def test_a_held_request_that_gives_way_takes_its_question_with_it(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=8 * 3600)
    house.book("7g.80gb", hours=4, by=house.lead)
    held = house.borrow(hours=4)
    assert held.state == State.REQUESTED
    house.claim()
    assert (fresh(held).state, fresh(held).end_reason) == (State.ENDED, "displaced")
    assert Approval.objects.get().decision == "withdrawn"


def test_what_its_owner_gives_back_already_is_no_victim(house):
    borrowed = running_borrower(house)
    release_reservation(reservation=borrowed, actor=house.owner)
    with pytest.raises(ReservationRefused):
        house.claim(start=house.now + 3 * HOUR)
    assert windows(borrowed) == set() and not Wait.objects.exists()
    assert Lease.objects.get(reservation=borrowed).during.upper == house.now + 6 * HOUR


def test_a_rest_too_short_to_be_booked_is_not_queued(house):
    borrowed = running_borrower(house, hours=3)
    house.pool.shortest_window_seconds = 3600
    house.pool.save()
    house.claim(start=house.now + 2 * HOUR + 30 * MINUTE)
    assert not Reservation.objects.filter(continues=borrowed).exists()
    assert "rest" not in Notice.objects.get(kind="displaced").facts


def test_an_extension_within_the_guarantee_displaces_who_borrows_its_place(house):
    mine = house.run(house.claim(start=house.now, hours=2))
    ((gpu_id, *_span),) = places(mine)
    here, there = Gpu.objects.get(pk=gpu_id), Gpu.objects.exclude(pk=gpu_id).get()
    later = span(house.now + 3 * HOUR, 1)
    guaranteed, borrowed = (
        make_reservation(house.team, house.pool, "7g.80gb", later, places=((gpu, 0),), owner=house.owner)
        for gpu in (there, here)
    )
    Reservation.objects.filter(pk=borrowed.pk).update(borrowed=True)
    changed = house.change(mine, end=house.now + 4 * HOUR, by=house.rival)
    assert changed.during.upper == house.now + 4 * HOUR
    assert fresh(guaranteed).state == State.CONFIRMED
    assert fresh(borrowed).state == State.ENDED and rest_of(borrowed).state == State.QUEUED


def test_an_extension_displaces_nobody_who_is_guaranteed_its_place(house):
    mine = house.run(house.claim(start=house.now, hours=2))
    ((gpu_id, *_span),) = places(mine)
    for gpu in Gpu.objects.all():
        later = make_reservation(
            house.team, house.pool, "7g.80gb", span(house.now + 3 * HOUR, 1), places=((gpu, 0),), owner=house.owner
        )
        Reservation.objects.filter(pk=later.pk).update(borrowed=gpu.pk != gpu_id)
    with pytest.raises(NoCapacity) as refused:
        house.change(mine, end=house.now + 4 * HOUR, by=house.rival)
    assert refused.value.evidence == {"free_until": (house.now + 3 * HOUR).isoformat()}
    assert set(Reservation.objects.filter(tenant=house.team).values_list("state", flat=True)) == {State.CONFIRMED}


def test_an_extension_beyond_the_guarantee_is_borrowed_and_displaces_nobody(house):
    mine = house.run(house.claim(start=house.now, hours=2))
    elsewhere = Gpu.objects.exclude(pk=places(mine)[0][0]).get()
    make_reservation(house.other, house.pool, "7g.80gb", span(house.now + 3 * HOUR, 1), places=((elsewhere, 0),))
    changed = house.change(mine, end=house.now + 4 * HOUR, by=house.rival)
    assert changed.borrowed
    entry = AuditEntry.objects.get(action="reservation.end_changed")
    assert (entry.before["borrowed"], entry.after["borrowed"]) == (False, True)


def test_the_preview_says_that_a_claim_fits_and_how_many_give_way_and_changes_nothing(house):
    house.book("7g.80gb")
    borrowed = house.borrow()
    shape = profile_of(house.pool, "7g.80gb")
    before = list(Reservation.objects.values())
    seen = preview(house.other, house.pool, shape, 1, span(house.start, 1), owner=house.rival)
    assert (seen.fits, seen.displaces, len(seen.placements)) == (True, 1, 1)
    assert seen.placements[0].gpu.pk == places(borrowed)[0][0]
    refused = preview(house.team, house.pool, shape, 1, span(house.start, 1), owner=house.owner)
    assert (refused.fits, refused.reason.code) == (False, "quota_exceeded")
    assert list(Reservation.objects.values()) == before


def test_the_reserve_page_says_who_decides_and_what_is_borrowed_before_it_is_sent(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=8 * 3600)
    house.book("7g.80gb", by=house.lead)
    client = Client()
    client.force_login(house.owner)
    local = timezone.localtime(house.start)
    asked = {
        "tenant": house.team.pk, "pool": house.pool.pk, "profile": profile_of(house.pool, "7g.80gb").pk, "ranks": 1,
        "start": "at", "start_date": f"{local:%Y-%m-%d}", "start_time": f"{local:%H:%M}", "length": "2",
        "workload": "command", "command": "train",
    }  # fmt: skip
    shown = client.get("/reserve/preview/", asked).content.decode()
    assert "Needs approval." in shown and "14 slice-h is above 8 slice-h" in shown
    assert "Borrowed." in shown and "with 15 min notice" in shown
    shown = client.get("/reserve/preview/", asked | {"length": "1", "start_time": f"{local + HOUR:%H:%M}"})
    assert "Needs approval." not in shown.content.decode() and "Borrowed." not in shown.content.decode()


def test_a_request_above_the_threshold_is_told_until_when_its_place_is_held(house):
    set_policy(actor=house.admin, tenant=house.team, approval_above_slice_seconds=3600)
    client = Client()
    client.force_login(house.owner)
    local = timezone.localtime(house.start)
    asked = {
        "tenant": house.team.pk, "pool": house.pool.pk, "profile": profile_of(house.pool, "7g.80gb").pk, "ranks": 1,
        "start": "at", "start_date": f"{local:%Y-%m-%d}", "start_time": f"{local:%H:%M}", "length": "2",
        "workload": "command", "command": "train",
    }  # fmt: skip
    answer = client.post("/reserve/", asked, follow=True)
    assert "A lead decides about train; its place is held until" in answer.content.decode()


def test_what_is_borrowed_carries_its_mark_at_home_and_on_its_page_with_the_story_of_its_displacement(house):
    house.book("7g.80gb")
    borrowed = house.borrow()
    client = Client()
    client.force_login(house.owner)
    address = f"/reservations/{borrowed.number}/"
    assert "may displace it with 15 min notice" in client.get("/").content.decode()
    assert "Borrowed." in client.get(address).content.decode()
    claimed = house.claim()
    shown = client.get(address).content.decode()
    rest = rest_of(borrowed)
    assert "Displaced by a reservation that is guaranteed its slices." in shown and claimed.number not in shown
    assert "7 slice-h were credited." in shown and f"continues as {rest.number}" in shown
    client.force_login(house.admin)
    assert f"Displaced by {claimed.number} of robotics" in client.get(address).content.decode()
    assert f"The rest of {borrowed.number}" in client.get(f"/reservations/{rest.number}/").content.decode()
