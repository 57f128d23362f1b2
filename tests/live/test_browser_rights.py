"""Who may hold a browser's socket, and for how long: rights are checked when it opens and ever after."""

import json

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session

from portal.events import tell_tenant_on_commit
from portal.live import browser_socket
from portal.live.database import in_database
from portal.live.origin import is_own_origin
from portal.tenants.models import Membership, Tenant
from tests.factories import make_tenant, make_user
from tests.live.parts import ORIGIN, closed_with, shown, some_nodes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def people():
    """A member of the project, and one of another team."""

    async def make():
        await in_database(some_nodes)()
        project = await Tenant.objects.aget(name="segmentation")
        other = await in_database(make_tenant)("speech-lab", await Tenant.objects.aget(parent=None))
        return await in_database(make_user)("ada", project), await in_database(make_user)("bo", other)

    return make


@pytest.mark.parametrize(
    ("origin", "host", "ours"),
    [
        (ORIGIN, "testserver", True),
        ("http://localhost:8123", "localhost:8123", True),
        ("http://localhost:8124", "localhost:8123", False),
        ("https://localhost:8123", "localhost:8123", False),
        ("http://evil.example", "localhost:8123", False),
        ("http://evil.example", "evil.example", False),
        ("http://127.0.0.1:8000.evil.example", "localhost", False),
        ("http://user@127.0.0.1:8000", "localhost", True),
        ("null", "localhost", False),
        ("", "localhost", False),
        ("http://[broken", "localhost", False),
        ("http://localhost:99999", "localhost", False),
    ],
)
def test_only_the_portals_own_pages_may_open_a_socket(origin, host, ours):
    assert is_own_origin(origin, host, "ws") is ours


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:8001", None])
async def test_a_foreign_or_missing_origin_is_refused_with_a_valid_session(people, signed_in, as_browser, origin):
    ada, _ = await people()
    assert not await as_browser(await signed_in(ada), origin).connect()


async def test_nobody_gets_in_without_a_session(as_browser):
    assert not await as_browser(None).connect()


async def test_a_disabled_person_does_not_get_in(people, signed_in, as_browser):
    ada, _ = await people()
    client = await signed_in(ada)
    ada.is_active = False
    await in_database(ada.save)()
    assert not await as_browser(client).connect()


@pytest.fixture
def open_page(people, signed_in, as_browser):
    """(the person, the browser that holds the session, an open socket)."""

    async def make():
        ada, _ = await people()
        client = await signed_in(ada)
        socket = as_browser(client)
        assert await socket.connect()
        await shown(socket, lambda message: "v" in message)
        return ada, client, socket

    return make


def _disable(user) -> None:
    user.is_active = False
    user.save()


def _change_password(user) -> None:
    user.set_password("another-good-one")
    user.save()


def _leave_tenant(user) -> None:
    Membership.objects.get(user=user).delete()


@pytest.mark.parametrize("change", [_disable, _change_password, _leave_tenant])
async def test_losing_a_right_closes_the_socket_at_once(open_page, change):
    ada, _, socket = await open_page()
    await in_database(change)(ada)
    await shown(socket, lambda message: message == {"closed": "rights"}, within_seconds=5)
    assert await closed_with(socket) == 4403


async def test_signing_out_closes_the_sockets_of_this_session_and_leaves_the_others(open_page, signed_in, as_browser):
    ada, client, socket = await open_page()
    elsewhere = as_browser(await signed_in(ada))
    assert await elsewhere.connect()
    await in_database(client.logout)()
    assert await closed_with(socket) == 4403
    await in_database(tell_tenant_on_commit)((await Tenant.objects.aget(name="segmentation")).pk, "after")
    await shown(elsewhere, lambda message: message.get("fact") == "after")


async def test_a_session_that_ends_unheard_is_found_by_the_check(open_page, monkeypatch):
    monkeypatch.setattr(browser_socket, "CHECK_SECONDS", 1)
    _, client, socket = await open_page()
    await Session.objects.filter(pk=client.cookies[settings.SESSION_COOKIE_NAME].value).aupdate(
        expire_date="2020-01-01T00:00Z"
    )
    assert await closed_with(socket, within_seconds=5) == 4403


async def test_traffic_on_a_socket_does_not_extend_its_session(open_page):
    _, client, socket = await open_page()
    key = client.cookies[settings.SESSION_COOKIE_NAME].value
    before = (await Session.objects.aget(pk=key)).expire_date
    for _ in range(5):
        await socket.send('{"watch": ["n1"]}')
        await shown(socket, lambda message: "v" in message)
    assert (await Session.objects.aget(pk=key)).expire_date == before


async def test_a_new_role_needs_no_new_socket(people, signed_in, as_browser):
    ada, _ = await people()
    other = await Tenant.objects.aget(name="speech-lab")
    socket = as_browser(await signed_in(ada))
    await socket.connect()
    await in_database(Membership.objects.create)(user=ada, tenant=other, role="viewer")
    for _ in range(20):
        await in_database(tell_tenant_on_commit)(other.pk, "news")
        message = json.loads(await socket.receive(5))
        if message.get("fact") == "news":
            return
    raise AssertionError("no fact of the new tenant was heard")


async def test_facts_of_a_tenant_reach_its_people_only(people, signed_in, as_browser):
    ada, bo = await people()
    sockets = [as_browser(await signed_in(person)) for person in (ada, bo)]
    for socket in sockets:
        await socket.connect()
        await shown(socket, lambda message: "v" in message)
    project = await Tenant.objects.aget(name="segmentation")
    await in_database(tell_tenant_on_commit)(project.pk, "reservation.changed", reservation=7)
    await in_database(tell_tenant_on_commit)((await Tenant.objects.aget(name="speech-lab")).pk, "last")
    told = await shown(sockets[0], lambda message: "fact" in message)
    assert told == {"fact": "reservation.changed", "reservation": 7}
    assert (await shown(sockets[1], lambda message: "fact" in message))["fact"] == "last"


async def test_an_eleventh_socket_of_one_person_is_refused(people, signed_in, as_browser):
    ada, _ = await people()
    client = await signed_in(ada)
    for _ in range(10):
        assert await as_browser(client).connect()
    socket = as_browser(client)
    await socket.connect()
    assert await closed_with(socket) == 4429
