from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0003_one_bound_lease_per_rank")]

    operations = [
        migrations.AddField(
            model_name="maintenance", name="stops_at", field=models.DateTimeField(blank=True, null=True)
        ),
    ]
