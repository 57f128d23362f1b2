"""The tree of tenants, and who holds which role where."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Role(models.TextChoices):
    """Inherited downwards. A viewer sees; a member reserves; a lead acts for members and splits quota; an admin all."""

    VIEWER = "viewer", _("viewer")
    MEMBER = "member", _("member")
    LEAD = "lead", _("lead")
    ADMIN = "admin", _("admin")


ROLE_RANK = {Role.VIEWER: 0, Role.MEMBER: 1, Role.LEAD: 2, Role.ADMIN: 3}


class Tenant(models.Model):
    """A node of the tree: organisation, team, project. ``path`` is ``/1/4/9/`` with its own id last, set once."""

    name = models.CharField(_("name"), max_length=64)
    code = models.CharField(_("code"), max_length=2, help_text=_("Two letters that mark its leases."))
    hue = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(8)])
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    path = models.CharField(max_length=255, unique=True, editable=False)
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    closed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["path"]
        constraints = [
            models.UniqueConstraint(
                fields=["parent"], condition=Q(parent__isnull=True), nulls_distinct=False, name="tenant_one_root"
            ),
            models.UniqueConstraint(fields=["parent", "name"], name="tenant_name_once_below_parent"),
            models.CheckConstraint(condition=Q(hue__range=(1, 8)), name="tenant_hue_1_to_8"),
        ]
        indexes = [models.Index(fields=["path"], name="tenant_path_prefix", opclasses=["varchar_pattern_ops"])]

    def __str__(self) -> str:
        return self.name

    @property
    def ancestor_ids(self) -> list[int]:
        """Ids from the root down to and including this tenant."""
        return [int(part) for part in self.path.strip("/").split("/") if part]

    @property
    def depth(self) -> int:
        return self.path.count("/") - 2


class Membership(models.Model):
    """A role of a person in a tenant and everything below it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "tenant"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role} of {self.tenant}"


class Invitation(models.Model):
    """A link that makes its holder a person of Berth with a role in a tenant; only the token's hash is kept."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(_("e-mail"), max_length=254)
    role = models.CharField(max_length=16, choices=Role.choices)
    token_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role_known")]

    def __str__(self) -> str:
        return f"{self.email} to {self.tenant}"
