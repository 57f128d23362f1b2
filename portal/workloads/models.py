"""What runs on a slice."""

from django.conf import settings
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

MOST_RESTARTS = 10


class Template(models.Model):
    """A workload that a tenant and everything below it may start with one click."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="workload_templates")
    name = models.CharField(_("name"), max_length=64)
    summary = models.CharField(_("summary"), max_length=120, blank=True)
    image = models.CharField(_("image"), max_length=512, blank=True)
    command = models.JSONField(_("command"), default=list)
    environment = models.JSONField(_("environment"), default=dict)
    position = models.PositiveSmallIntegerField(default=0)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["position", "name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="template_name_once_per_tenant")]

    def __str__(self) -> str:
        return self.name


class RankLoss(models.TextChoices):
    END = "end", _("end the group")
    RESTART = "restart", _("start the group again")


class Workload(models.Model):
    """The frozen copy that belongs to one reservation: later edits of a template never change it.

    ``command`` is an argument list, never a shell line. ``rank_loss`` is what becomes of a group one of whose ranks is
    lost: with ``restart`` it begins again, at most ``restarts_most`` times; ``restarts`` counts them.
    """

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(_("name"), max_length=64)
    image = models.CharField(_("image"), max_length=512, blank=True)
    command = models.JSONField(_("command"), default=list)
    environment = models.JSONField(_("environment"), default=dict)
    grace_seconds = models.PositiveSmallIntegerField(default=30, validators=[MaxValueValidator(600)])
    rank_loss = models.CharField(max_length=16, choices=RankLoss.choices, default=RankLoss.END)
    restarts_most = models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(MOST_RESTARTS)])
    restarts = models.PositiveSmallIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(rank_loss__in=RankLoss.values), name="workload_rank_loss_known"),
            models.CheckConstraint(condition=Q(restarts__lte=F("restarts_most")), name="workload_restarts_in_limit"),
        ]

    def __str__(self) -> str:
        return self.name
