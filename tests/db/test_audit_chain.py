"""The chain of hashes over the audit trail: what is sealed, and that whatever is done to it is found."""

import datetime as dt
import io
import re

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from portal.audit import sealing
from portal.audit.chain import FIRST_LINK
from portal.audit.models import AuditEntry, AuditSeal
from portal.audit.sealing import seal_entries, seal_late_entries
from portal.audit.services import record_change
from portal.audit.verifying import ROWS_AT_ONCE, ChainBroken, verify_chain
from scheduler.tasks.seals import seal_audit
from tests.factories import make_user

pytestmark = pytest.mark.django_db
TABLES = ("audit_auditentry", "audit_auditseal")


@pytest.fixture
def entries() -> list[AuditEntry]:
    """Five entries, sealed at positions 1 to 5."""
    actor = make_user("ada")
    made = [
        record_change(actor=actor, action="pool.changed", subject=f"pool {n}", before={"limit": n}, after={"limit": 9})
        for n in range(5)
    ]
    assert seal_entries() == 5
    return made


def tamper(*statements: str) -> None:
    """What an owner of the database can do: no trigger and no foreign key is in the way."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER audit_append_only_rows")
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = 'audit_auditseal'::regclass"
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f'ALTER TABLE audit_auditseal DROP CONSTRAINT "{name}"')
        for statement in statements:
            cursor.execute(statement)


def broken() -> tuple[int, str]:
    with pytest.raises(ChainBroken) as found:
        verify_chain()
    return found.value.position, found.value.why


def test_entries_are_sealed_once_in_the_order_of_their_ids(entries):
    seals = list(AuditSeal.objects.all())
    assert [(seal.position, seal.entry_id) for seal in seals] == [
        (position, entry.pk) for position, entry in enumerate(entries, start=1)
    ]
    assert [seal.previous_hash for seal in seals] == [FIRST_LINK, *(seal.hash for seal in seals[:-1])]
    assert seal_entries() == seal_late_entries() == 0
    found = verify_chain()
    assert (found.count, found.position, found.head) == (5, 5, seals[-1].hash)


def test_an_entry_that_is_committed_late_is_sealed_at_the_end(entries, monkeypatch):
    late = entries[1].pk
    seals = [(seal.position, seal.entry_id, seal.previous_hash, seal.hash) for seal in AuditSeal.objects.all()]
    tamper(f"DELETE FROM audit_auditseal WHERE entry_id <> {entries[0].pk}")
    monkeypatch.setattr(sealing, "unsealed", lambda: AuditEntry.objects.filter(pk__gt=late))
    assert seal_entries() == 3
    monkeypatch.undo()
    assert seal_entries() == 1
    assert AuditSeal.objects.get(position=5).entry_id == late
    assert verify_chain().count == len(seals) == 5


def test_what_is_further_back_than_a_quick_pass_looks_is_found_by_the_thorough_one(entries, monkeypatch):
    tamper(
        f"DELETE FROM audit_auditseal WHERE entry_id = {entries[-1].pk}",
        "DELETE FROM audit_auditseal WHERE position = 1",
    )
    monkeypatch.setattr(sealing, "LATE_ROWS", 1)
    assert seal_entries() == 1
    assert seal_entries() == 0
    assert seal_late_entries() == 1


def test_the_sweep_seals_in_bounded_passes_until_nothing_is_left(entries, monkeypatch):
    monkeypatch.setattr(sealing, "MOST_ROWS", 2)
    for _ in range(5):
        record_change(actor=None, action="node.silent", subject="quay-01")
    assert seal_entries() == 2
    assert seal_audit() == 3
    assert verify_chain().count == 10


def test_a_chain_longer_than_one_read_is_verified_whole(entries):
    AuditEntry.objects.bulk_create(AuditEntry(action="node.state", subject=f"{n}") for n in range(ROWS_AT_ONCE + 7))
    while seal_entries():
        pass
    assert verify_chain().count == ROWS_AT_ONCE + 12
    tamper(f"UPDATE audit_auditentry SET subject = 'x' WHERE subject = '{ROWS_AT_ONCE + 3}'")
    assert broken()[0] == ROWS_AT_ONCE + 9


@pytest.mark.parametrize("what", [
    "action = 'pool.created'", "subject = 'pool 7'", "actor_id = NULL", "at = at + interval '1 microsecond'",
    "before = '{}'", "after = '{\"limit\": 10}'", "address = '203.0.113.9'", "via = 'page'",
])  # fmt: skip
def test_an_entry_that_was_changed_is_found(entries, what):
    tamper(f"UPDATE audit_auditentry SET {what} WHERE id = {entries[2].pk}")
    position, why = broken()
    assert position == 3
    assert "was changed after it was sealed" in why


def test_an_entry_that_was_deleted_is_found(entries):
    tamper(f"DELETE FROM audit_auditentry WHERE id = {entries[3].pk}")
    assert broken() == (4, f"entry {entries[3].pk} is missing")


def test_an_entry_that_was_deleted_with_its_seal_is_found(entries):
    gone = entries[1].pk
    tamper(f"DELETE FROM audit_auditseal WHERE entry_id = {gone}", f"DELETE FROM audit_auditentry WHERE id = {gone}")
    assert broken() == (2, "its seal is missing")


def test_a_gap_that_was_closed_is_found(entries):
    gone = entries[1].pk
    tamper(
        f"DELETE FROM audit_auditseal WHERE entry_id = {gone}", f"DELETE FROM audit_auditentry WHERE id = {gone}",
        *(f"UPDATE audit_auditseal SET position = {n - 1} WHERE position = {n}" for n in (3, 4, 5)),
    )  # fmt: skip
    assert broken() == (2, "broken link: it does not follow the hash before it")


def test_two_entries_that_were_swapped_are_found(entries):
    first, second = entries[1].pk, entries[2].pk
    tamper(
        f"UPDATE audit_auditseal SET entry_id = -1 WHERE entry_id = {first}",
        f"UPDATE audit_auditseal SET entry_id = {first} WHERE entry_id = {second}",
        f"UPDATE audit_auditseal SET entry_id = {second} WHERE entry_id = -1",
    )
    position, why = broken()
    assert (position, "was changed" in why) == (2, True)


def test_two_seals_that_were_swapped_are_found(entries):
    tamper(
        "UPDATE audit_auditseal SET position = 99 WHERE position = 2",
        "UPDATE audit_auditseal SET position = 2 WHERE position = 3",
        "UPDATE audit_auditseal SET position = 3 WHERE position = 99",
    )
    assert broken() == (2, "broken link: it does not follow the hash before it")


def test_an_entry_that_stays_unsealed_for_more_than_a_minute_is_found(entries):
    fresh = record_change(actor=None, action="node.silent", subject="quay-01")
    assert verify_chain().count == 5
    tamper(f"UPDATE audit_auditentry SET at = now() - interval '61 seconds' WHERE id = {fresh.pk}")
    assert broken() == (6, f"unsealed for more than a minute: 1, the first is entry {fresh.pk}")


def test_a_chain_that_was_written_anew_holds_in_itself_and_misses_the_head_that_was_noted_down(entries):
    noted = verify_chain().head
    assert verify_chain(head=noted).count == 5
    tamper(f"UPDATE audit_auditentry SET subject = 'x' WHERE id = {entries[4].pk}", "DELETE FROM audit_auditseal")
    seal_entries()
    assert verify_chain().count == 5
    with pytest.raises(ChainBroken, match="was not met: it was cut off or written anew"):
        verify_chain(head=noted)


def test_verifying_from_a_position_believes_what_lies_before(entries):
    noted = AuditSeal.objects.get(position=3).hash
    tamper(f"UPDATE audit_auditentry SET subject = 'x' WHERE id = {entries[0].pk}")
    assert verify_chain(since=4, head=noted).count == 2
    assert broken()[0] == 1
    with pytest.raises(ChainBroken, match="position 7: its seal is missing"):
        verify_chain(since=8)


def test_the_command_prints_the_number_and_the_head_and_names_what_is_broken(entries):
    out = io.StringIO()
    call_command("audit_verify", stdout=out)
    head = AuditSeal.objects.get(position=5).hash
    assert out.getvalue() == f"5 entries hold, up to position 5.\nhead {head}\n"
    call_command("audit_verify", "--since", "2", "--head", head.upper(), stdout=out)
    tamper(f"UPDATE audit_auditentry SET subject = 'x' WHERE id = {entries[2].pk}")
    with pytest.raises(CommandError, match=re.escape(f"does not hold at position 3: entry {entries[2].pk}")) as refused:
        call_command("audit_verify")
    assert refused.value.returncode == 1
    with pytest.raises(CommandError, match="64 hexadecimal digits"):
        call_command("audit_verify", "--head", "abc")


def test_an_empty_trail_holds():
    assert verify_chain().head == FIRST_LINK


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("verb", ["UPDATE {} SET id = id", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_the_database_refuses_to_change_remove_or_empty(entries, table, verb):
    statement = verb.format(table).replace("id = id", "position = position" if table.endswith("seal") else "id = id")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for each in TABLES:  # as it is everywhere but in tests
            cursor.execute(f"ALTER TABLE {each} ENABLE TRIGGER audit_append_only_table")
        with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic():
            cursor.execute(statement)
    assert AuditSeal.objects.count() == AuditEntry.objects.count() == 5


def test_times_and_numbers_keep_their_hash_whatever_zone_the_reader_is_in(entries):
    record_change(actor=None, action="x", subject="ü", after={"b": 1.5, "a": [1, None, "é\u2028"], "c": 10**20})
    seal_entries()
    with timezone.override(dt.timezone(dt.timedelta(hours=8))):
        assert verify_chain().count == 6
