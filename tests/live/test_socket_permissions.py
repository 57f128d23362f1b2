"""Every socket x role, against the reviewed table in tests/db/permission_table.py."""

import msgspec
import pytest

from portal.live.database import in_database
from portal.live.routing import SOCKETS as SERVED
from tests.db.permission_table import ROLES, SOCKETS
from tests.db.permission_world import make_world
from tests.live.parts import AGENT_PATH, LIVE_PATH, closed_with

pytestmark = pytest.mark.django_db(transaction=True)

# Programs hold no session: what they can try is their token in the header.
PROGRAMS = ("token", "dead_token")
REFUSED_CODE = 4401


def test_every_socket_has_a_row():
    assert set(SERVED) == set(SOCKETS), "add the socket to tests/db/permission_table.py"


async def test_only_sessions_of_people_who_are_not_disabled_open_the_live_socket(as_browser):
    world = await in_database(make_world)()
    found = {}
    for role in ROLES:
        client = await in_database(world.client)(role)
        found[role] = await as_browser(None if role in ("anonymous", *PROGRAMS) else client).connect()
    assert {role for role in ROLES if found[role]} == SOCKETS[LIVE_PATH]


async def test_no_person_and_no_program_of_a_person_opens_an_agents_socket(as_agent):
    world = await in_database(make_world)()
    for credential in ("", *(world.texts[role] for role in PROGRAMS)):
        socket = as_agent(credential)
        assert await socket.connect()  # accepted only to be told why it is refused
        assert msgspec.json.decode(await socket.receive(within_seconds=10))["code"] == "revoked"
        assert await closed_with(socket) == REFUSED_CODE
    assert SOCKETS[AGENT_PATH] == frozenset()
