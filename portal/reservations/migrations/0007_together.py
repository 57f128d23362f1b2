"""Whether ranks work as one group; and the picture of a pool is old when a rack or the links of a GPU change."""

from django.db import migrations, models

NODE = "(OLD.state, OLD.by_plan, OLD.silent_since IS NULL, OLD.enrolled_at IS NULL{old})"
GPU = "(OLD.pool_id, OLD.node_id, OLD.index, OLD.memory_slices, OLD.present, OLD.state{old})"


def _trigger(table: str, columns: str, added: str) -> str:
    """When an update of the table makes pictures old."""
    before = columns.replace("{old}", f", OLD.{added}" if added else "")
    return f"""
DROP TRIGGER picture_{table}_update ON {table};
CREATE TRIGGER picture_{table}_update AFTER UPDATE ON {table} FOR EACH ROW
WHEN ({before} IS DISTINCT FROM {before.replace("OLD.", "NEW.")}) EXECUTE FUNCTION picture_mark('fleet');
"""


class Migration(migrations.Migration):
    dependencies = [("inventory", "0006_topology"), ("reservations", "0006_pool_picture")]

    operations = [
        migrations.AddField("reservation", "together", models.BooleanField(null=True, blank=True)),
        migrations.RunSQL(_trigger("inventory_node", NODE, "rack"), _trigger("inventory_node", NODE, "")),
        migrations.RunSQL(_trigger("inventory_gpu", GPU, "links"), _trigger("inventory_gpu", GPU, "")),
    ]
