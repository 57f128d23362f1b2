"""The database itself refuses to change, remove or empty what is told and what is sealed."""

from django.db import migrations

FORBID = """
CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER audit_append_only_table BEFORE TRUNCATE ON audit_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER audit_append_only_rows BEFORE UPDATE OR DELETE ON audit_auditseal
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER audit_append_only_table BEFORE TRUNCATE ON audit_auditseal
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
"""
ALLOW = """
DROP TRIGGER audit_append_only_table ON audit_auditseal;
DROP TRIGGER audit_append_only_rows ON audit_auditseal;
DROP TRIGGER audit_append_only_table ON audit_auditentry;
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0003_origin_and_seals")]
    operations = [migrations.RunSQL(FORBID, ALLOW)]
