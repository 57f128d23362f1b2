"""How much a tenant may hold at one moment, and spend in a period. Both bind everything below the tenant."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeOperators
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from psycopg2.extras import DateTimeTZRange

ALL_WEEKDAYS = 127


def always() -> DateTimeTZRange:
    """A validity without beginning or end."""
    return DateTimeTZRange(None, None, "[)")


class Quota(models.Model):
    """The most weight that a tenant's subtree may hold at one moment in a pool. No row up to the root: no access.

    ``valid`` bounds when it holds; rows of one tenant and pool never overlap in it, but may meet. Up to ``guaranteed``
    nobody displaces what is held; above it a tenant borrows.
    """

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="quotas")
    pool = models.ForeignKey("inventory.Pool", on_delete=models.PROTECT, related_name="quotas")
    guaranteed = models.PositiveIntegerField(_("guaranteed"), default=0)
    limit = models.PositiveIntegerField(_("limit"))
    valid = DateTimeRangeField(_("valid"), default=always)

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="quota_once_per_tenant_pool_and_time",
                expressions=[
                    ("tenant", RangeOperators.EQUAL),
                    ("pool", RangeOperators.EQUAL),
                    ("valid", RangeOperators.OVERLAPS),
                ],
            ),
            models.CheckConstraint(condition=Q(valid__isempty=False), name="quota_valid_at_some_time"),
            models.CheckConstraint(condition=Q(guaranteed__lte=F("limit")), name="quota_guarantee_within_limit"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant} in {self.pool}: {self.guaranteed} of {self.limit}"

    @property
    def is_always(self) -> bool:
        return self.valid.lower is None and self.valid.upper is None

    def part_of(self, during: DateTimeTZRange) -> DateTimeTZRange | None:
        """The part of a bounded window in which the quota is valid, or None."""
        if self.is_always:
            return during
        since = during.lower if self.valid.lower is None else max(during.lower, self.valid.lower)
        until = during.upper if self.valid.upper is None else min(during.upper, self.valid.upper)
        return DateTimeTZRange(since, until, "[)") if since < until else None

    @property
    def open_hours(self) -> list["OpenHours"]:
        """Its schedules in order. Selectors note in ``is_timed`` whether it has any, so that most ask for none."""
        if not getattr(self, "is_timed", True):
            return []
        return sorted(self.hours.all(), key=lambda one: (one.weekdays, one.opens, one.closes))


class OpenHours(models.Model):
    """Hours of the week, local to the tenant, in which a quota may be used; a quota without any is open always.

    ``weekdays`` is a mask, Monday 1 to Sunday 64; ``opens`` and ``closes`` are minutes after midnight.
    """

    quota = models.ForeignKey(Quota, on_delete=models.CASCADE, related_name="hours")
    weekdays = models.PositiveSmallIntegerField(
        default=ALL_WEEKDAYS, validators=[MinValueValidator(1), MaxValueValidator(ALL_WEEKDAYS)]
    )
    opens = models.PositiveSmallIntegerField()
    closes = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["quota", "weekdays", "opens", "closes"], name="open_hours_once"),
            models.CheckConstraint(
                condition=Q(opens__lt=F("closes"), closes__lte=1440, weekdays__range=(1, ALL_WEEKDAYS)),
                name="open_hours_are_real",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.weekdays:07b} {self.opens}-{self.closes}"


class Policy(models.Model):
    """What a tenant's people may ask for. Empty is inherited; what is set can only tighten what stands above."""

    tenant = models.OneToOneField("tenants.Tenant", on_delete=models.PROTECT, related_name="policy")
    longest_window_seconds = models.PositiveIntegerField(_("longest window"), null=True, blank=True)
    book_ahead_seconds = models.PositiveIntegerField(_("book-ahead limit"), null=True, blank=True)
    most_weight_each = models.PositiveIntegerField(_("most slices at once per person"), null=True, blank=True)
    pool_ids = ArrayField(models.BigIntegerField(), verbose_name=_("allowed pools"), null=True, blank=True)
    profiles = ArrayField(models.CharField(max_length=64), verbose_name=_("allowed profiles"), null=True, blank=True)
    images = ArrayField(models.CharField(max_length=255), verbose_name=_("allowed images"), null=True, blank=True)
    approval_above_slice_seconds = models.PositiveBigIntegerField(_("approval threshold"), null=True, blank=True)
    protected_seconds = models.PositiveIntegerField(_("protected minimum run time"), null=True, blank=True)

    def __str__(self) -> str:
        return f"policy of {self.tenant}"


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
