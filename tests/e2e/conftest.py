"""One Berth with a filled calendar and one Chromium for all tests of this folder, stopped when the folder is done.

Playwright keeps an event loop in the thread that started it, so neither may outlive the folder.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from portal.demo.names import RESEARCHER_EMAIL, RESEARCHER_TENANT
from portal.demo.ports import is_free
from portal.demo.supervisor import Stack
from tests.e2e.visitors import Visitors, launch
from tests.smoke.bookings import Researcher
from tests.smoke.client import Client
from tests.smoke.conftest import left_over

# Not those of other tests: this stack's web goes down and comes back, and nobody may take its port meanwhile.
OWN_PORTS = range(8300, 8400)


@pytest.fixture(scope="package")
def stack(tmp_path_factory) -> Iterator[Stack]:
    folder = Path(tmp_path_factory.mktemp("e2e"))
    port = next(port for port in OWN_PORTS if is_free(port))
    with Stack(folder / "home", port, own_servers=True).running() as stack:
        yield stack
    assert left_over(stack.home) == []


@pytest.fixture(scope="package")
def visitors(stack) -> Iterator[Visitors]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield Visitors(browser, stack.url, stack.password)
        browser.close()


@pytest.fixture
def researcher(stack) -> Iterator[Researcher]:
    """The newcomer's other hand, on the API: what it books is given back at the end of the test."""
    client = Client(stack.url)
    client.sign_in(RESEARCHER_EMAIL, stack.password)
    person = Researcher(client, RESEARCHER_TENANT)
    yield person
    person.give_everything_back()
