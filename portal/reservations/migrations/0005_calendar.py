"""Addresses of calendars, and how often what they show has changed: counted by the database, whoever changes it."""

import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

COUNT = """
CREATE FUNCTION calendar_count_change() RETURNS trigger AS $$
BEGIN
    NEW.changes := GREATEST(OLD.changes, NEW.changes) + 1;
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER calendar_reservation_changed BEFORE UPDATE ON reservations_reservation FOR EACH ROW
WHEN ((OLD.during, OLD.state, OLD.end_reason, OLD.ended_at, OLD.ranks, OLD.profile_id, OLD.pool_id, OLD.owner_id)
      IS DISTINCT FROM
      (NEW.during, NEW.state, NEW.end_reason, NEW.ended_at, NEW.ranks, NEW.profile_id, NEW.pool_id, NEW.owner_id))
EXECUTE FUNCTION calendar_count_change();
CREATE TRIGGER calendar_maintenance_changed BEFORE UPDATE ON reservations_maintenance FOR EACH ROW
WHEN ((OLD.during, OLD.ended_at, OLD.cancelled_at, OLD.reason)
      IS DISTINCT FROM (NEW.during, NEW.ended_at, NEW.cancelled_at, NEW.reason))
EXECUTE FUNCTION calendar_count_change();
CREATE FUNCTION calendar_count_new_name() RETURNS trigger AS $$
BEGIN
    UPDATE reservations_reservation SET changes = changes + 1, changed_at = clock_timestamp()
    WHERE workload_id = NEW.id;
    RETURN NULL;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER calendar_workload_renamed AFTER UPDATE ON workloads_workload FOR EACH ROW
WHEN (OLD.name IS DISTINCT FROM NEW.name) EXECUTE FUNCTION calendar_count_new_name();
"""
FORGET = """
DROP TRIGGER calendar_workload_renamed ON workloads_workload;
DROP FUNCTION calendar_count_new_name();
DROP TRIGGER calendar_maintenance_changed ON reservations_maintenance;
DROP TRIGGER calendar_reservation_changed ON reservations_reservation;
DROP FUNCTION calendar_count_change();
"""


def _count(model: str) -> list:
    now = django.db.models.functions.datetime.Now()
    return [
        migrations.AddField(
            model, "changes", models.PositiveIntegerField(db_default=0, default=0, editable=False)
        ),
        migrations.AddField(
            model, "changed_at",
            models.DateTimeField(db_default=now, default=django.utils.timezone.now, editable=False),
        ),
    ]


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("inventory", "0001_initial"),
        ("tenants", "0001_initial"),
        ("workloads", "0001_initial"),
        ("reservations", "0004_maintenance_stops_at"),
    ]

    operations = [
        *_count("reservation"),
        *_count("maintenance"),
        migrations.RunSQL(COUNT, FORGET),
        migrations.CreateModel(
            name="CalendarFeed",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=8, choices=[
                    ("user", "own reservations"), ("tenant", "reservations of a tenant"),
                    ("node", "reservations on a node")])),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("sign_in_round", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_read_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("content_tag", models.CharField(blank=True, max_length=64)),
                ("content_changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("owner", models.ForeignKey(
                    on_delete=django.db.models.deletion.CASCADE, related_name="calendar_feeds",
                    to=settings.AUTH_USER_MODEL)),
                ("tenant", models.ForeignKey(
                    blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+",
                    to="tenants.tenant")),
                ("node", models.ForeignKey(
                    blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+",
                    to="inventory.node")),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(kind="user", tenant__isnull=True, node__isnull=True)
                        | models.Q(kind="tenant", tenant__isnull=False, node__isnull=True)
                        | models.Q(kind="node", tenant__isnull=True, node__isnull=False),
                        name="calendar_feed_of_one_thing",
                    ),
                    models.UniqueConstraint(
                        fields=("owner", "kind", "tenant", "node"), condition=models.Q(revoked_at__isnull=True),
                        nulls_distinct=False, name="calendar_feed_one_live_each",
                    ),
                ],
            },
        ),
    ]
