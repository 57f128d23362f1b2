"""For all tests: a test whose need is missing is skipped with the reason, and fails where CI=true."""

import os

import pytest
from django.utils import translation

from tests.needs import NEEDS

SERIAL_FOLDERS = ("race", "e2e", "smoke", "bench")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in NEEDS.items():
        if item.get_closest_marker(marker) and (reason := missing()):
            if os.environ.get("CI", "").lower() == "true":
                pytest.fail(f"{marker}: {reason}, and CI=true allows no such skip.", pytrace=False)
            pytest.skip(f"{marker}: {reason}")


@pytest.fixture(autouse=True)
def the_first_language():
    """A request leaves its language active in the thread; the next test begins in English."""
    translation.activate("en")
    yield
    translation.deactivate()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that measure time or start many processes share one worker, so that they never disturb each other.

    First of all hooks: pytest-xdist reads the groups in its own.
    """
    for item in items:
        folder = item.nodeid.split("/")[1] if item.nodeid.count("/") else ""
        if folder in SERIAL_FOLDERS or item.get_closest_marker("stack"):
            item.add_marker(pytest.mark.xdist_group("serial"))
        elif folder == "live":
            item.add_marker(pytest.mark.xdist_group("live"))
