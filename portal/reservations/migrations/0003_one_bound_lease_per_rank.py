"""A lease that is being stopped after a move no longer keeps its rank from having another."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0002_trust")]

    operations = [
        migrations.RemoveConstraint(model_name="lease", name="lease_one_live_per_rank"),
        migrations.AddConstraint(
            model_name="lease",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["planned", "starting", "active"])),
                fields=("reservation", "rank"),
                name="lease_one_live_per_rank",
            ),
        ),
    ]
