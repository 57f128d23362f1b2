"""What changed since: stamps on leases and marks beside them, written by the database, whoever changes a row.

A stamp is the id of the changing transaction. Who reads remembers the oldest transaction that was under way, and asks
next time for all stamps from that one on: what was committed late, in whatever order, is among them.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now

STAMPS = """
CREATE FUNCTION picture_stamp_lease() RETURNS trigger AS $$
BEGIN
    IF TG_OP = 'INSERT' OR (OLD.gpu_id, OLD.span, OLD.during, OLD.state, OLD.end_reason, OLD.frozen_at, OLD.rank)
        IS DISTINCT FROM (NEW.gpu_id, NEW.span, NEW.during, NEW.state, NEW.end_reason, NEW.frozen_at, NEW.rank)
    THEN
        NEW.changed_in := pg_current_xact_id()::text::bigint;
    ELSE
        NEW.changed_in := OLD.changed_in;
    END IF;
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER picture_lease_changed BEFORE INSERT OR UPDATE ON reservations_lease
FOR EACH ROW EXECUTE FUNCTION picture_stamp_lease();

CREATE FUNCTION picture_stamp_reservation() RETURNS trigger AS $$
BEGIN
    IF (OLD.borrowed, OLD.weight, OLD.tenant_id, OLD.pool_id, OLD.profile_id, OLD.pinned_node_id)
        IS DISTINCT FROM (NEW.borrowed, NEW.weight, NEW.tenant_id, NEW.pool_id, NEW.profile_id, NEW.pinned_node_id)
    THEN
        NEW.changed_in := pg_current_xact_id()::text::bigint;
    ELSE
        NEW.changed_in := OLD.changed_in;
    END IF;
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER picture_reservation_changed BEFORE UPDATE ON reservations_reservation
FOR EACH ROW EXECUTE FUNCTION picture_stamp_reservation();

CREATE FUNCTION picture_mark() RETURNS trigger AS $$
BEGIN
    INSERT INTO reservations_changemark (what, changed_in) VALUES (TG_ARGV[0], pg_current_xact_id()::text::bigint)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$ LANGUAGE plpgsql;
"""
UNSTAMP = """
DROP FUNCTION picture_mark();
DROP TRIGGER picture_reservation_changed ON reservations_reservation;
DROP FUNCTION picture_stamp_reservation();
DROP TRIGGER picture_lease_changed ON reservations_lease;
DROP FUNCTION picture_stamp_lease();
"""
# Table, what it marks, and when an update counts. A heartbeat of a node does not.
ANY = "(OLD.*) IS DISTINCT FROM (NEW.*)"
MARKED = [
    ("inventory_gpu", "fleet",
     "(OLD.pool_id, OLD.node_id, OLD.index, OLD.memory_slices, OLD.present, OLD.state) IS DISTINCT FROM"
     " (NEW.pool_id, NEW.node_id, NEW.index, NEW.memory_slices, NEW.present, NEW.state)"),
    ("inventory_node", "fleet",
     "(OLD.state, OLD.by_plan, OLD.silent_since IS NULL, OLD.enrolled_at IS NULL) IS DISTINCT FROM"
     " (NEW.state, NEW.by_plan, NEW.silent_since IS NULL, NEW.enrolled_at IS NULL)"),
    ("inventory_profile", "fleet", ANY),
    ("reservations_maintenance", "fleet",
     "(OLD.node_id, OLD.pool_id, OLD.during, OLD.ended_at, OLD.cancelled_at) IS DISTINCT FROM"
     " (NEW.node_id, NEW.pool_id, NEW.during, NEW.ended_at, NEW.cancelled_at)"),
    ("quotas_quota", "terms", ANY),
    ("quotas_openhours", "terms", ANY),
    ("quotas_policy", "terms", ANY),
    ("quotas_budget", "terms", ANY),
    ("tenants_tenant", "terms", ANY),
]  # fmt: skip
ERASED = ("reservations_lease", "reservations_reservation")


def _trigger(table: str, what: str, event: str, rows: str, condition: str = "") -> migrations.RunSQL:
    name = f"picture_{table}_{event.split()[0].lower()}"
    when = f"WHEN ({condition})" if condition else ""
    return migrations.RunSQL(
        f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH {rows} {when} EXECUTE FUNCTION picture_mark('{what}')",
        f"DROP TRIGGER {name} ON {table}",
    )


def _triggers() -> list[migrations.RunSQL]:
    found = []
    for table, what, condition in MARKED:
        found.append(_trigger(table, what, "INSERT OR DELETE", "ROW"))
        found.append(_trigger(table, what, "UPDATE", "ROW", condition))
        found.append(_trigger(table, what, "TRUNCATE", "STATEMENT"))
    for table in ERASED:
        found.append(_trigger(table, "erased", "DELETE", "ROW"))
        found.append(_trigger(table, "erased", "TRUNCATE", "STATEMENT"))
    return found


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0004_node_out_of_service"),
        ("quotas", "0002_trust"),
        ("tenants", "0001_initial"),
        ("reservations", "0005_calendar"),
    ]

    operations = [
        migrations.AddField(
            "lease", "changed_in", models.BigIntegerField(db_default=0, default=0, editable=False, db_index=True)
        ),
        migrations.AddField(
            "reservation", "changed_in", models.BigIntegerField(db_default=0, default=0, editable=False)
        ),
        migrations.AddField(
            "reservation", "pinned_node",
            models.ForeignKey(
                blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+",
                to="inventory.node"),
        ),
        migrations.AddIndex(
            "reservation",
            models.Index(fields=["changed_in"], condition=models.Q(changed_in__gt=0), name="reservation_changed_in"),
        ),
        migrations.CreateModel(
            name="ChangeMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("what", models.CharField(max_length=8, choices=[
                    ("fleet", "GPUs, nodes, maintenance, profiles"), ("terms", "quotas, policies, budgets"),
                    ("erased", "rows that are gone")])),
                ("changed_in", models.BigIntegerField()),
                ("marked_at", models.DateTimeField(db_default=Now(), db_index=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("changed_in", "what"), name="change_mark_once")
                ],
            },
        ),
        migrations.RunSQL(STAMPS, UNSTAMP),
        *_triggers(),
    ]
