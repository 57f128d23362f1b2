"""Two sealers at once: what goes round when the sweep's own lock is lost."""

import pytest
from django.db import connection

from portal.audit import sealing
from portal.audit.models import AuditEntry, AuditSeal
from portal.audit.sealing import seal_entries
from portal.audit.verifying import verify_chain

pytestmark = pytest.mark.django_db(transaction=True)
SEALERS, ENTRIES = 4, 300


@pytest.fixture
def entries(monkeypatch) -> None:
    monkeypatch.setattr(sealing, "MOST_ROWS", 20)
    AuditEntry.objects.bulk_create(AuditEntry(action="node.state", subject=f"{n}") for n in range(ENTRIES))


def seal_all(_number: int) -> str:
    sealed = 0
    while some := seal_entries():
        sealed += some
    return str(sealed)


def test_sealers_at_once_make_one_chain(race, entries):
    outcomes = race(seal_all, SEALERS)
    assert sum(map(int, outcomes)) == ENTRIES, outcomes
    assert verify_chain().count == AuditSeal.objects.count() == ENTRIES


def test_without_their_lock_the_database_still_refuses_a_fork(race, entries, monkeypatch):
    """The control: they do meet, and one of two that continue the same hash fails."""
    monkeypatch.setattr(sealing, "_lock_chain", lambda: _meet())
    outcomes = race(seal_all, SEALERS)
    assert any("IntegrityError" in outcome for outcome in outcomes), outcomes
    seal_all(0)
    assert verify_chain().count == ENTRIES


def _meet() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.02)")
