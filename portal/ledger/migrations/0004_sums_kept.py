"""The database notes every entry that is to be summed up, and refuses to change or remove a sum."""

from django.db import migrations

NOTE = """
CREATE FUNCTION ledger_note_unsummed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_unsummedentry (entry_id, lease_id, kind) SELECT id, lease_id, kind FROM added;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_entries_to_sum AFTER INSERT ON ledger_ledgerentry
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_note_unsummed();
INSERT INTO ledger_unsummedentry (entry_id, lease_id, kind) SELECT id, lease_id, kind FROM ledger_ledgerentry;
"""
FORGET = """
DROP TRIGGER ledger_entries_to_sum ON ledger_ledgerentry;
DROP FUNCTION ledger_note_unsummed();
DELETE FROM ledger_unsummedentry;
"""
FORBID = """
CREATE FUNCTION ledger_sums_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_append_only_batches BEFORE UPDATE OR DELETE ON ledger_sumbatch
    FOR EACH ROW EXECUTE FUNCTION ledger_sums_are_append_only();
CREATE TRIGGER ledger_append_only_sums BEFORE UPDATE OR DELETE ON ledger_dailysum
    FOR EACH ROW EXECUTE FUNCTION ledger_sums_are_append_only();
"""
ALLOW = """
DROP TRIGGER ledger_append_only_sums ON ledger_dailysum;
DROP TRIGGER ledger_append_only_batches ON ledger_sumbatch;
DROP FUNCTION ledger_sums_are_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_sums")]
    operations = [migrations.RunSQL(NOTE, FORGET), migrations.RunSQL(FORBID, ALLOW)]
