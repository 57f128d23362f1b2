"""The database itself refuses to change or remove a row."""

from django.db import migrations

FORBID = """
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ledger_ledgerentry is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_append_only_rows BEFORE UPDATE OR DELETE ON ledger_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
"""
ALLOW = """
DROP TRIGGER ledger_append_only_rows ON ledger_ledgerentry;
DROP FUNCTION ledger_is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]
    operations = [migrations.RunSQL(FORBID, ALLOW)]
