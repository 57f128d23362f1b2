"""Every profile's history of weights begins with the weight that it has."""

from django.db import migrations

BEGIN = """
INSERT INTO inventory_profileweight (profile_id, weight, since)
SELECT id, weight, now() FROM inventory_profile p
WHERE NOT EXISTS (SELECT 1 FROM inventory_profileweight w WHERE w.profile_id = p.id);
"""


class Migration(migrations.Migration):
    dependencies = [("inventory", "0002_trust")]
    operations = [migrations.RunSQL(BEGIN, migrations.RunSQL.noop)]
