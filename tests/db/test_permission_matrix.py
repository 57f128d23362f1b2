"""Every address x verb x role, against the reviewed table in permission_table.py."""

import re
from collections.abc import Iterator

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.db.permission_table import NOBODY_SIGNED_IN, ROLES, SESSIONS, TABLE, Row
from tests.db.permission_world import World, make_world

pytestmark = pytest.mark.django_db

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ROWS = [pytest.param(row, id=f"{row.verb} {row.url.split('?')[0]} {name}") for name in TABLE for row in TABLE[name]]
CHANGES = re.compile(
    rb'name="csrfmiddlewaretoken" value="\w+"|"X-CSRFToken": "\w+"|data-now="\d+"|datetime="[^"]*"|nonce="[^"]*"'
    rb"|<time data-clock.*?</time>",  # a minute may begin between two answers
    re.DOTALL,
)


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern)
        else:
            yield pattern


@pytest.fixture(scope="module")
def world(django_db_setup, django_db_blocker) -> Iterator[World]:
    """One world for all cells, in a transaction that is never committed; each cell leaves it as it found it."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_world()
        transaction.set_rollback(True)


def ask(client: Client, world: World, row: Row, verb: str = "", known: bool = True):
    """One request inside a savepoint that is rolled back, so that every cell finds the same world."""
    url, body = world.filled(row.url, known), world.filled(row.body, known)
    options = {"content_type": "application/json"} if row.is_api else {}
    verb = verb or row.verb
    with transaction.atomic():
        answer = client.get(url) if verb == "GET" else getattr(client, verb.lower())(url, body, **options)
        transaction.set_rollback(True)
    return answer


def expected(row: Row, role: str) -> int:
    if role in row.may and (role != "token" or row.is_api or "anonymous" in row.may):
        return row.ok
    if role in NOBODY_SIGNED_IN or (role == "token" and not row.is_api):
        return 401 if row.is_api else 302
    return row.but.get(role, row.no)


def test_every_address_has_a_row():
    names = [pattern.name for pattern in patterns(get_resolver())]
    assert None not in names, "an address without a name cannot be reviewed"
    assert sorted(set(names) - set(TABLE)) == [], "add a row to tests/db/permission_table.py"
    assert sorted(set(TABLE) - set(names)) == [], "a row of the table has no address any more"
    assert len(names) == len(set(names)), "two addresses share a name"


def test_every_row_belongs_to_the_address_it_is_filed_under(world):
    for name, rows in TABLE.items():
        for row in rows:
            path = str(world.filled(row.url)).split("?")[0]
            assert get_resolver().resolve(path).url_name == name


@pytest.mark.parametrize("row", ROWS)
def test_each_role_gets_what_the_table_says(world, row: Row):
    found, wanted = {}, {}
    for role in ROLES:
        answer = ask(world.client(role), world, row)
        found[role], wanted[role] = answer.status_code, expected(row, role)
        if wanted[role] == 302 and role not in row.may and row.no != 302:
            assert answer["Location"].startswith("/sign-in/?next="), role
    assert found == wanted


@pytest.mark.parametrize("row", [param for param in ROWS if param.values[0].names_something])
def test_what_is_foreign_looks_like_what_does_not_exist(world, row: Row):
    for role in sorted(set(SESSIONS) - row.may - set(row.but)):
        client = world.client(role)
        foreign, unknown = (ask(client, world, row, known=known) for known in (True, False))
        assert foreign.status_code == unknown.status_code == 404, role
        assert _plain(foreign, world.filled(row.url)) == _plain(unknown, world.filled(row.url, known=False)), role


def _plain(answer, url: str) -> bytes:
    body = CHANGES.sub(b"", answer.content)
    return body.replace(url.encode(), b"").replace(url.split("?")[0].encode(), b"")


@pytest.mark.parametrize("row", [param for param in ROWS if param.values[0].verb != "GET"])
def test_a_change_needs_the_token_against_forgery(world, row: Row):
    role = next(role for role in (*reversed(SESSIONS), "anonymous") if role in row.may)
    answer = ask(world.client(role, enforce_csrf_checks=True), world, row)
    assert answer.status_code == (403 if row.csrf else row.ok)


@pytest.mark.parametrize("name", TABLE)
def test_no_verb_is_served_that_the_table_does_not_list(world, name: str):
    rows = TABLE[name]
    listed = {row.verb for row in rows}
    client = world.client("member" if "platform_admin" not in rows[0].may else "platform_admin")
    for verb in VERBS:
        if verb not in listed:
            assert ask(client, world, rows[0], verb).status_code == 405, verb
