"""How much a tenant may hold at one moment, and spend in a period. Both bind everything below the tenant."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _


class Quota(models.Model):
    """The most weight that a tenant's subtree may hold at one moment in a pool. No row up to the root: no access."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="quotas")
    pool = models.ForeignKey("inventory.Pool", on_delete=models.PROTECT, related_name="quotas")
    guaranteed = models.PositiveIntegerField(_("guaranteed"), default=0)
    limit = models.PositiveIntegerField(_("limit"))

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "pool"], name="quota_once_per_tenant_and_pool"),
            models.CheckConstraint(condition=Q(guaranteed__lte=F("limit")), name="quota_guarantee_within_limit"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant} in {self.pool}: {self.guaranteed} of {self.limit}"


class Period(models.TextChoices):
    MONTH = "month", _("month")
    QUARTER = "quarter", _("quarter")
    YEAR = "year", _("year")


class Budget(models.Model):
    """Weighted slice-seconds that a tenant's subtree may spend in each calendar period of the tenant's time zone."""

    tenant = models.OneToOneField("tenants.Tenant", on_delete=models.PROTECT, related_name="budget")
    period = models.CharField(_("period"), max_length=8, choices=Period.choices, default=Period.MONTH)
    slice_seconds = models.PositiveBigIntegerField(_("slice-seconds"))

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(period__in=Period.values), name="budget_period_known")]

    def __str__(self) -> str:
        return f"{self.tenant}: {self.slice_seconds // 3600} slice-h a {self.period}"
