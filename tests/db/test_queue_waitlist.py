"""The waitlist of a taken window: an offer with a deadline to the first in order, then to the next."""

import datetime as dt

import pytest
from django.conf import settings
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.audit.models import AuditEntry
from portal.notices.models import Kind, Notice
from portal.quotas.models import Policy
from portal.reservations.changing import release_reservation
from portal.reservations.errors import NoCapacity, StateConflict, WindowRefused
from portal.reservations.models import LIVE, Lease, Reservation, State, Wait
from portal.reservations.queue_serving import serve_queue
from portal.reservations.waitlist import accept_offer, decline_offer, join_waitlist, lapse_offers
from portal.tenants.models import Role
from tests.db.test_queue import HOUR, RUN, ask, hold, now, place, unhurried
from tests.factories import make_user, profile_of, window

__all__ = ["place", "unhurried"]
pytestmark = pytest.mark.django_db
SECOND = dt.timedelta(seconds=1)


def join(place, during, profile="7g.80gb", owner=None, **more):
    owner = owner or make_user(tenant=place["tenant"])
    return join_waitlist(
        created_by=owner, owner=owner, tenant=place["tenant"], pool=place["pool"],
        profile=profile_of(place["pool"], profile), ranks=1, during=during, **({"workload": RUN} | more))  # fmt: skip


@pytest.fixture
def taken(place):
    """A window tomorrow that somebody holds."""
    return hold(place, now() + 24 * HOUR, 4, owner=place["owner"], tenant=place["tenant"])


def give_back(place, reservation):
    release_reservation(reservation=reservation, actor=place["owner"])
    return serve_queue(place["pool"].pk)


def again(reservation):
    return Reservation.objects.select_related("pool", "wait").get(pk=reservation.pk)


def test_who_waits_for_a_taken_window_keeps_that_window_and_learns_why(place, taken):
    waiting = join(place, taken.during)
    assert (waiting.state, waiting.during) == (State.QUEUED, taken.during)
    assert (waiting.wait.reason, waiting.wait.estimated_at) == ("no_room", None)
    assert not waiting.leases.exists()


def test_a_window_that_is_free_after_all_is_confirmed_at_once(place):
    assert join(place, window(now() + 24 * HOUR, 4)).state == State.CONFIRMED


def test_a_window_that_never_fits_is_refused(place, taken):
    place["root"].quotas.update(limit=1000)
    with pytest.raises(NoCapacity):
        join_waitlist(
            created_by=place["owner"], owner=place["owner"], tenant=place["tenant"], pool=place["pool"], ranks=2,
            profile=profile_of(place["pool"], "7g.80gb"), during=taken.during, workload=RUN)  # fmt: skip
    with pytest.raises(WindowRefused):
        join(place, window(now() - 5 * HOUR, 4))


def test_freed_time_is_offered_to_the_first_with_a_deadline(place, taken):
    first, second = join(place, taken.during), join(place, taken.during)
    assert give_back(place, taken) == 1
    offered, waits = again(first), again(second)
    assert offered.state == State.QUEUED
    assert dt.timedelta(minutes=29) < offered.hold_expires_at - timezone.now() <= settings.OFFER_HOLD
    lease = offered.leases.get()
    assert (lease.state, lease.frozen_at, lease.during) == ("planned", None, taken.during)
    assert waits.hold_expires_at is None and waits.wait.reason == "no_room"
    notice = Notice.objects.get(kind=Kind.OFFERED)
    assert (notice.user, notice.facts["expires_at"]) == (first.owner, offered.hold_expires_at.isoformat())


def test_an_accepted_offer_is_a_reservation(place, taken):
    first = join(place, taken.during)
    give_back(place, taken)
    accepted = accept_offer(reservation=again(first), actor=first.owner)
    assert (accepted.state, accepted.hold_expires_at, accepted.during) == (State.CONFIRMED, None, taken.during)
    assert not Wait.objects.exists()
    with pytest.raises(StateConflict):
        accept_offer(reservation=accepted, actor=first.owner)
    assert AuditEntry.objects.filter(action="reservation.offer_accepted", actor=first.owner).count() == 1


def test_an_offer_above_the_threshold_becomes_a_question_when_it_is_taken(place, taken):
    first = join(place, taken.during)
    Policy.objects.create(tenant=place["tenant"], approval_above_slice_seconds=3600)
    give_back(place, taken)
    accepted = accept_offer(reservation=again(first), actor=first.owner)
    assert accepted.state == State.REQUESTED and accepted.approval.decision == ""
    assert accepted.leases.get().state == "planned"


def test_a_declined_offer_goes_to_the_next_at_once(place, taken):
    first, second = join(place, taken.during), join(place, taken.during)
    give_back(place, taken)
    declined = decline_offer(reservation=again(first), actor=first.owner)
    assert declined.state == State.CANCELLED
    assert again(second).hold_expires_at is not None
    assert Lease.objects.filter(state__in=LIVE).get().reservation_id == second.pk


def test_a_lapsed_offer_goes_to_the_next_and_its_owner_to_the_end(place, taken):
    first, second = join(place, taken.during), join(place, taken.during)
    give_back(place, taken)
    late = again(first).hold_expires_at
    assert lapse_offers(late - SECOND) == 0
    assert lapse_offers(late) == 1
    assert again(first).wait.offers_lapsed == 1 and again(first).hold_expires_at is None
    assert again(second).hold_expires_at is not None
    assert Notice.objects.get(kind=Kind.OFFER_LAPSED).user == first.owner
    with pytest.raises(StateConflict):
        accept_offer(reservation=again(first), actor=first.owner)


def test_who_lets_two_offers_lapse_is_out(place, taken):
    only = join(place, taken.during)
    give_back(place, taken)
    lapse_offers(again(only).hold_expires_at)
    lapse_offers(again(only).hold_expires_at)
    only.refresh_from_db()
    assert only.state == State.CANCELLED
    assert Notice.objects.filter(kind=Kind.OFFER_LAPSED).count() == 2
    assert not Lease.objects.filter(state__in=LIVE).exists()


def test_the_rest_of_a_window_that_has_begun_is_offered_while_enough_is_left(place):
    taken = hold(place, now() + HOUR, 4, owner=place["owner"], tenant=place["tenant"])
    waiting = join(place, taken.during)
    release_reservation(reservation=taken, actor=place["owner"])
    at = taken.starts_at + 2 * HOUR
    serve_queue(place["pool"].pk, at)
    offered = again(waiting)
    assert offered.during == DateTimeTZRange(at, taken.ends_at, "[)")
    assert offered.hold_expires_at == at + dt.timedelta(minutes=5)


def test_nothing_is_offered_any_more_once_too_little_is_left(place):
    taken = hold(place, now() + HOUR, 4, owner=place["owner"], tenant=place["tenant"])
    waiting = join(place, taken.during)
    release_reservation(reservation=taken, actor=place["owner"])
    serve_queue(place["pool"].pk, taken.ends_at - HOUR)
    waiting.refresh_from_db()
    assert waiting.state == State.CANCELLED
    assert Notice.objects.filter(kind=Kind.GAVE_UP).count() == 1


def test_an_offer_holds_its_place_against_everybody_else(place, taken):
    first = join(place, taken.during)
    give_back(place, taken)
    later = join(place, taken.during)
    assert later.state == State.QUEUED and later.wait.reason == "no_room"
    release_reservation(reservation=again(first), actor=first.owner)
    serve_queue(place["pool"].pk)
    assert again(later).hold_expires_at is not None


def test_who_counts_on_a_node_is_named_before_it_is_cordoned(client, place, taken):
    """Who was to start there waits longer, whose offer is held there keeps it: neither is nobody."""
    hold(place, now() - HOUR, 4)
    node = place["pool"].gpus.get().node
    waiting, offered = ask(place, hours=2.0), join(place, taken.during)
    give_back(place, taken)
    client.force_login(make_user("ada", place["root"], Role.ADMIN))
    page = client.get(f"/nodes/{node.pk}/state/", {"state": "cordoned"}).content.decode()
    assert "Nobody is affected." not in page
    assert f"/reservations/{waiting.number}/" in page and "waits for another place" in page
    assert f"/reservations/{offered.number}/" in page and "keeps the place offered to it until" in page
    client.post(f"/nodes/{node.pk}/state/", {"state": "cordoned"})
    serve_queue(place["pool"].pk)
    assert again(waiting).wait.estimated_at is None
    assert accept_offer(reservation=again(offered), actor=offered.owner).state == State.CONFIRMED
    assert "Nobody is affected." in client.get(f"/nodes/{node.pk}/state/", {"state": "ready"}).content.decode()
