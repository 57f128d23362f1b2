"""Calendar addresses: who may make, read and revoke one, and what is remembered of it."""

import datetime as dt
import re

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.services import disable, enable
from portal.audit.models import AuditEntry
from portal.inventory.models import Node, NodeState
from portal.reservations.calendar_feeds import make_feed, revoke_feed
from portal.reservations.models import CalendarFeed
from portal.tenants.models import Membership, Role
from tests.db.house import House
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> House:
    return House()


def page(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def address_in(answer) -> str:
    return re.search(r"http://127\.0\.0\.1:8000(/calendar/[\w-]{43}\.ics)", answer.content.decode()).group(1)


def status(address: str, **headers) -> int:
    return Client(headers=headers).get(address).status_code


def plain(answer, address: str) -> str:
    """The page without what differs with every request."""
    return re.sub(r'nonce="[^"]*"|csrf\w*" value="\w+"|"X-CSRFToken": "\w+"|data-now="\d+"|datetime="[^"]*"', "",
                  answer.content.decode().replace(address, ""))  # fmt: skip


def test_an_address_is_shown_once_read_without_a_session_and_kept_as_a_hash(house):
    client = page(house.owner)
    address = address_in(client.post("/calendar/feeds/", {"what": "own"}))
    assert status(address) == 200
    again = client.get("/calendar/").content.decode()
    assert "up to 1000 events" in again
    assert "My reservations" in again
    assert ".ics" not in again
    assert address.split("/")[-1].removesuffix(".ics") not in str(CalendarFeed.objects.values().get())


def test_a_revoked_address_is_as_unknown_as_one_that_never_was(house):
    feed, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    assert status(address) == 200
    stranger = page(make_user("eve", house.team))
    assert stranger.post(f"/calendar/feeds/{feed.pk}/revoke/").status_code == 404
    assert status(address) == 200
    assert page(house.owner).post(f"/calendar/feeds/{feed.pk}/revoke/").status_code == 302
    unknown = "/calendar/" + "x" * 43 + ".ics"
    gone, never = Client().get(address), Client().get(unknown)
    assert (gone.status_code, never.status_code) == (404, 404)
    assert plain(gone, address) == plain(never, unknown)
    assert revoke_feed(feed=feed, actor=house.owner) is False


def test_a_new_address_of_the_same_thing_replaces_the_old_one(house):
    client = page(house.owner)
    old, new, tenants = [
        address_in(client.post("/calendar/feeds/", {"what": what}))
        for what in ("own", "own", f"tenant-{house.team.pk}")
    ]
    assert [status(address) for address in (old, new, tenants)] == [404, 200, 200]
    kept = CalendarFeed.objects.filter(revoked_at=None, kind="user").get()
    with pytest.raises(IntegrityError), transaction.atomic():
        CalendarFeed.objects.create(owner=house.owner, kind="user", token_hash="x", sign_in_round=kept.sign_in_round)


def test_who_lost_the_tenant_reads_nothing_and_its_new_name_is_not_told(house):
    client = page(house.owner)
    address = address_in(client.post("/calendar/feeds/", {"what": f"tenant-{house.team.pk}"}))
    assert status(address) == 200
    Membership.objects.filter(user=house.owner).delete()
    house.team.name = "renamed-since"
    house.team.save()
    assert status(address) == 404
    assert "renamed-since" not in client.get("/calendar/").content.decode()
    Membership.objects.create(user=house.owner, tenant=house.team, role=Role.VIEWER)
    assert status(address) == 200


def test_who_left_a_tenant_does_not_read_there_what_was_theirs(house):
    booked = house.book()
    _, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    assert f"reservation-{booked.pk}@".encode() in Client().get(address).content
    Membership.objects.filter(user=house.owner).delete()
    assert b"reservation-" not in Client().get(address).content


def test_a_disabled_persons_addresses_are_dead_for_good(house):
    _, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    assert disable(person=house.owner, actor=house.admin)
    assert status(address) == 404
    assert enable(person=house.owner, actor=house.admin)
    assert status(address) == 404
    assert b"None yet" in page(User.objects.get(pk=house.owner.pk)).get("/calendar/").content
    house.owner.refresh_from_db()
    _, new = make_feed(owner=house.owner)
    assert status(new.removeprefix("http://127.0.0.1:8000")) == 200


def test_a_node_is_for_admins_of_the_platform_and_only_while_they_are(house):
    node = Node.objects.get()
    assert page(house.lead).post("/calendar/feeds/", {"what": f"node-{node.pk}"}).status_code == 404
    assert node.name not in page(house.lead).get("/calendar/").content.decode()
    address = address_in(page(house.admin).post("/calendar/feeds/", {"what": f"node-{node.pk}"}))
    assert status(address) == 200
    Membership.objects.filter(user=house.admin).update(role=Role.LEAD)
    assert status(address) == 404
    Membership.objects.filter(user=house.admin).update(role=Role.ADMIN)
    Node.objects.update(state=NodeState.RETIRED)
    assert status(address) == 404


@pytest.mark.parametrize("what", ["", "x", "own-1", "tenant-", "tenant-x", "node-1e3", "tenant-" + "9" * 30, "node-0"])
def test_what_is_nothing_gets_no_address(house, what):
    assert page(house.admin).post("/calendar/feeds/", {"what": what}).status_code == 404
    assert not CalendarFeed.objects.exists()


def test_another_tenant_gets_no_address(house):
    other = make_tenant("robotics", house.root)
    assert page(house.lead).post("/calendar/feeds/", {"what": f"tenant-{other.pk}"}).status_code == 404
    assert "robotics" not in page(house.lead).get("/calendar/").content.decode()


def test_what_did_not_change_is_not_sent_again(house):
    booked = house.book()
    _, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    first = Client().get(address)
    assert (first["Cache-Control"], first["Content-Type"]) == ("private, max-age=60", "text/calendar; charset=utf-8")
    assert Client().get(address).content == first.content, "the same rows give the same bytes"
    for headers in ({"If-None-Match": first["ETag"]}, {"If-Modified-Since": first["Last-Modified"]}):
        answer = Client(headers=headers).get(address)
        assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", first["ETag"])
    CalendarFeed.objects.update(content_changed_at=timezone.now() - dt.timedelta(hours=1))
    hour_ago = Client().get(address)
    house.change(booked, end=booked.ends_at + dt.timedelta(hours=1))
    for headers in ({"If-None-Match": first["ETag"]}, {"If-Modified-Since": hour_ago["Last-Modified"]}):
        assert status(address, **headers) == 200


def test_a_reader_learns_at_once_what_it_may_no_longer_see(house):
    house.book()
    _, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    first = Client().get(address)
    CalendarFeed.objects.update(content_changed_at=timezone.now() - dt.timedelta(hours=1))
    since = Client().get(address)["Last-Modified"]
    Membership.objects.filter(user=house.owner).delete()
    assert status(address, **{"If-Modified-Since": since}) == 200
    assert status(address, **{"If-None-Match": first["ETag"]}) == 200


def test_a_read_is_remembered_once_a_minute(house):
    feed, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    Client().get(address)
    feed.refresh_from_db()
    first = feed.last_read_at
    assert first is not None
    Client().get(address)
    feed.refresh_from_db()
    assert feed.last_read_at == first
    CalendarFeed.objects.update(last_read_at=first - dt.timedelta(minutes=2))
    Client().get(address)
    feed.refresh_from_db()
    assert feed.last_read_at >= first


def test_who_asks_all_the_time_is_told_to_wait(house):
    _, address = make_feed(owner=house.owner)
    address = address.removeprefix("http://127.0.0.1:8000")
    client = Client()
    assert [client.get(address).status_code for _ in range(30)] == [200] * 30
    refused = client.get(address)
    assert (refused.status_code, refused["Retry-After"], refused.content) == (429, "600", b"")


def test_the_trail_tells_who_made_and_revoked_what(house):
    feed, _ = make_feed(owner=house.owner, tenant=house.team)
    newer, _ = make_feed(owner=house.owner, tenant=house.team)
    told = AuditEntry.objects.order_by("id").values_list("action", "actor", "tenant", "subject", "before", "after")
    what = {"kind": "tenant", "of": "vision-lab"}
    team, owner = house.team.pk, house.owner.pk
    assert list(told) == [
        ("feed.made", owner, team, f"feed {feed.pk}", {}, what),
        ("feed.revoked", owner, team, f"feed {feed.pk}", what, {}),
        ("feed.made", owner, team, f"feed {newer.pk}", {}, what),
    ]


@pytest.mark.parametrize("feeds", [1, 25, 200])
def test_queries_of_the_page_do_not_grow_with_tenants(house, feeds, django_assert_max_num_queries):
    for number in range(feeds):
        make_feed(owner=house.admin, tenant=make_tenant(f"part-{number}", house.root))
    client = page(house.admin)
    with django_assert_max_num_queries(12):
        answer = client.get("/calendar/")
    assert len(answer.context["feeds"]) == feeds
