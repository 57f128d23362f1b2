"""For all tests: a test whose need is missing is skipped with the reason, and fails where CI=true."""

import os

import pytest
from django.db import connection
from django.utils import translation
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.needs import NEEDS

SERIAL_FOLDERS = ("race", "e2e", "smoke", "bench")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in NEEDS.items():
        if item.get_closest_marker(marker) and (reason := missing()):
            if os.environ.get("CI", "").lower() == "true":
                pytest.fail(f"{marker}: {reason}, and CI=true allows no such skip.", pytrace=False)
            pytest.skip(f"{marker}: {reason}")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """Tests that commit empty every table when they end; the audit trail refuses that, so here alone it does not."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        for table in ("audit_auditentry", "audit_auditseal"):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER audit_append_only_table")


@pytest.fixture(autouse=True)
def the_first_language():
    """A request leaves its language active in the thread; the next test begins in English."""
    translation.activate("en")
    yield
    translation.deactivate()


class ByFolder(LoadScopeScheduling):
    """Tests that measure time or start many processes share one worker, so that they never disturb each other.

    By our own hand: the groups of pytest-xdist 3.8 have no effect under pytest 9.2, whose items keep their ids.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.split("/")[1] if nodeid.count("/") else ""
        if folder in SERIAL_FOLDERS:
            return "serial"
        if folder == "machine":  # each walk takes a minute and stands alone
            return nodeid
        return folder if folder == "live" else nodeid.split("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFolder:
    return ByFolder(config, log)
