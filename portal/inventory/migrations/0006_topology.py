from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0005_gpu_measured")]

    operations = [
        migrations.AddField(
            "node", "rack", models.CharField(max_length=64, blank=True, default=""), preserve_default=False
        ),
        migrations.AddField("gpu", "links", models.JSONField(null=True, blank=True)),
    ]
