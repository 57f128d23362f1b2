"""From where a change came: each way in says it, and ways in at the same time never mix."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory

from portal.accounts.services import create_token
from portal.audit.middleware import OriginMiddleware
from portal.audit.models import AuditEntry
from portal.audit.origin import Origin, Via, clean_address, coming_from, current_origin
from portal.audit.services import LONGEST_SUBJECT, record_change
from portal.inventory.enrolment import new_enrolment_token
from portal.inventory.models import Node
from portal.tenants.models import Role
from scheduler.tasks.sweeps import sweep
from tests.factories import make_org, make_user

PROFILE = {"name": "Ada L", "language": "en", "time_zone": "UTC"}


def last() -> tuple[str, str, str]:
    entry = AuditEntry.objects.latest("id")
    return entry.action, entry.via, entry.address


@pytest.mark.django_db
def test_a_change_from_a_page_says_page_and_the_clients_address(client):
    client.force_login(make_user("ada"))
    client.post("/profile/", PROFILE, REMOTE_ADDR="203.0.113.9")
    assert last() == ("person.changed", "page", "203.0.113.9")


@pytest.mark.django_db
def test_a_header_that_anybody_can_write_is_not_believed(client):
    client.force_login(make_user("ada"))
    client.post("/profile/", PROFILE, REMOTE_ADDR="203.0.113.9", headers={"X-Forwarded-For": "198.51.100.1"})
    assert last() == ("person.changed", "page", "203.0.113.9")


@pytest.mark.django_db
def test_a_node_that_joins_says_agent(client):
    node = Node.objects.create(name="quay-01")
    token = new_enrolment_token(node=node, actor=None)
    answer = client.post(
        "/agent/v1/enrol",
        {"version": 1, "token": token, "hostname": "quay-01"},
        content_type="application/json",
        REMOTE_ADDR="2001:db8::0:7",
    )
    assert answer.status_code == 200
    assert last() == ("node.enrolled", "agent", "2001:db8::7")


@pytest.mark.django_db
def test_a_command_says_command_and_has_no_address(monkeypatch):
    monkeypatch.setenv("BERTH_ADMIN_PASSWORD", "seven-slices-of-a-canvas")
    call_command("create_admin", "--email", "ada@example.org", "--name", "Ada")
    assert set(AuditEntry.objects.values_list("via", "address")) == {("command", "")}


@pytest.mark.django_db
def test_what_a_sweep_finds_says_sweep():
    sweep("a test", lambda: record_change(actor=None, action="node.silent", subject="quay-01") and 0)
    assert last() == ("node.silent", "sweep", "")
    assert current_origin() == Origin()


@pytest.mark.django_db
def test_the_api_says_api(client):
    root, _, _ = make_org()
    _, text = create_token(person=make_user("ada", root, Role.ADMIN), name="script", days=1)
    seen = []
    middleware = OriginMiddleware(lambda request: seen.append(current_origin()) or HttpResponse())
    middleware(RequestFactory().post("/api/v1/reservations/", headers={"Authorization": f"Bearer {text}"}))
    assert seen == [Origin(Via.API, "127.0.0.1")]


@pytest.mark.django_db
def test_a_long_subject_is_cut_and_never_the_reason_that_a_change_fails():
    entry = record_change(actor=None, action="quota.set", subject="q" * 300)
    entry.refresh_from_db()
    assert entry.subject == "q" * LONGEST_SUBJECT


async def test_requests_at_once_keep_their_own_origin():
    """As the server runs them: each request a task, each view in a thread."""
    together = threading.Barrier(4)

    def view(request: HttpRequest) -> HttpResponse:
        together.wait(10)
        found = current_origin()
        together.wait(10)
        return HttpResponse(f"{found.via} {found.address} {current_origin() == found}")

    middleware = sync_to_async(OriginMiddleware(view), thread_sensitive=False)
    factory = AsyncRequestFactory()
    asked = [factory.get("/api/x" if n % 2 else "/x") for n in range(4)]
    for n, request in enumerate(asked):
        request.META["REMOTE_ADDR"] = f"192.0.2.{n}"
    answers = await asyncio.gather(*(middleware(request) for request in asked))
    assert [answer.content.decode() for answer in answers] == [
        f"{'api' if n % 2 else 'page'} 192.0.2.{n} True" for n in range(4)
    ]
    assert current_origin() == Origin()


async def test_an_origin_reaches_the_threads_that_do_the_database_work():
    with coming_from(Via.AGENT, "192.0.2.1"):
        assert await sync_to_async(current_origin, thread_sensitive=False)() == Origin(Via.AGENT, "192.0.2.1")
    assert current_origin() == Origin()


@pytest.mark.parametrize("typed, clean", [
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:DB8:0::1", "2001:db8::1"),
    ("fe80::1%eth0", "fe80::1"), ("", ""), ("unix:", ""), ("1.2.3", ""), ("<script>", ""),
])  # fmt: skip
def test_an_address_is_written_in_one_way(typed, clean):
    assert clean_address(typed) == clean
