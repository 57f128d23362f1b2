from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0003_first_weights")]

    operations = [
        migrations.AddField(model_name="node", name="by_plan", field=models.BooleanField(default=False)),
        migrations.AddField(model_name="node", name="drain_until", field=models.DateTimeField(blank=True, null=True)),
    ]
