"""Changing the tree of tenants. One transaction each; the row of the parent is the lock for what is below it."""

from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.events import tell_everybody_on_commit
from portal.tenants.errors import TenantRefused
from portal.tenants.models import Role, Tenant
from portal.tenants.people import (
    accept_invitation,
    disable_person,
    enable_person,
    invite,
    remove_member,
    set_role,
    withdraw_invitation,
)
from portal.tenants.selectors import may

__all__ = [
    "accept_invitation", "close_tenant", "create_tenant", "disable_person", "enable_person", "invite",
    "plant_root", "remove_member", "rename_tenant", "set_role", "withdraw_invitation",
]  # fmt: skip

HUES = 8
DEEPEST = 12
HOLDS_SOMETHING = ["requested", "queued", "confirmed", "running"]


@transaction.atomic
def plant_root(*, name: str, code: str = "", time_zone: str = "UTC") -> Tenant:
    """The organisation itself. The database takes only one."""
    root = Tenant.objects.create(
        name=_checked_name(name), code=code or _code_for(name, set()), time_zone=time_zone, path=""
    )
    root = _with_path(root, "/")
    after = {"name": root.name, "code": root.code, "time_zone": time_zone}
    record_change(actor=None, action="tenant.created", subject=f"tenant {root.pk}", tenant_id=root.pk, after=after)
    return root


@transaction.atomic
def create_tenant(*, actor: User, parent: Tenant, name: str, code: str = "", hue: int = 0) -> Tenant:
    """A tenant below ``parent``; a code of two letters and the hue used least are chosen where none is given."""
    if not may(actor, parent, Role.ADMIN):
        raise TenantRefused(_("Only an admin of %(tenant)s may do that.") % {"tenant": parent}, "no_access")
    parent = Tenant.objects.select_for_update(no_key=True).get(pk=parent.pk)
    if parent.closed_at:
        raise TenantRefused(_("%(tenant)s is closed.") % {"tenant": parent}, "closed")
    if parent.depth >= DEEPEST:
        raise TenantRefused(_("Tenants go at most %(levels)d levels deep.") % {"levels": DEEPEST}, "too_deep")
    name = _checked_name(name)
    if parent.children.filter(name__iexact=name).exists():
        raise TenantRefused(
            _("%(parent)s has a tenant “%(name)s” already.") % {"parent": parent, "name": name}, "name_taken"
        )
    taken = set(Tenant.objects.values_list("code", flat=True))
    tenant = Tenant.objects.create(
        name=name, code=_checked_code(code, taken) if code else _code_for(name, taken), parent=parent,
        hue=hue if 1 <= hue <= HUES else _next_hue(), time_zone=parent.time_zone, path=f"new {parent.pk} {name}",
    )  # fmt: skip
    tenant = _with_path(tenant, parent.path)
    after = {"name": name, "code": tenant.code, "parent": parent.pk}
    record_change(actor=actor, action="tenant.created", subject=f"tenant {tenant.pk}", tenant_id=tenant.pk, after=after)
    tell_everybody_on_commit("tenants.changed")
    return tenant


@transaction.atomic
def rename_tenant(*, actor: User, tenant: Tenant, name: str) -> Tenant:
    if not may(actor, tenant, Role.ADMIN):
        raise TenantRefused(_("Only an admin of %(tenant)s may do that.") % {"tenant": tenant}, "no_access")
    name, before = _checked_name(name), tenant.name
    if Tenant.objects.filter(parent_id=tenant.parent_id, name__iexact=name).exclude(pk=tenant.pk).exists():
        raise TenantRefused(
            _("%(parent)s has a tenant “%(name)s” already.") % {"parent": tenant.parent, "name": name}, "name_taken"
        )
    Tenant.objects.filter(pk=tenant.pk).update(name=name)
    tenant.name = name
    record_change(
        actor=actor,
        action="tenant.renamed",
        subject=f"tenant {tenant.pk}",
        tenant_id=tenant.pk,
        before={"name": before},
        after={"name": name},
    )
    return tenant


@transaction.atomic
def close_tenant(*, actor: User, tenant: Tenant) -> Tenant:
    """Nothing can be booked for it any more; its past stays. Refused while something below it is open."""
    if tenant.parent is None or not may(actor, tenant.parent, Role.ADMIN):
        raise TenantRefused(_("Only an admin above %(tenant)s may close it.") % {"tenant": tenant}, "no_access")
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    held = Tenant.objects.filter(path__startswith=tenant.path, reservations__state__in=HOLDS_SOMETHING).count()
    if held:
        text = _("%(tenant)s still has %(count)d open reservations.")
        raise TenantRefused(text % {"tenant": tenant, "count": held}, "open_reservations")
    if tenant.children.filter(closed_at__isnull=True).exists():
        raise TenantRefused(_("Close what is below %(tenant)s first.") % {"tenant": tenant}, "open_children")
    if not Tenant.objects.filter(pk=tenant.pk, closed_at__isnull=True).update(closed_at=timezone.now()):
        raise TenantRefused(_("%(tenant)s is closed.") % {"tenant": tenant}, "closed")
    tenant.refresh_from_db()
    after = {"closed_at": tenant.closed_at.isoformat() if tenant.closed_at else ""}
    record_change(actor=actor, action="tenant.closed", subject=f"tenant {tenant.pk}", tenant_id=tenant.pk, after=after)
    tell_everybody_on_commit("tenants.changed")
    return tenant


def _with_path(tenant: Tenant, above: str) -> Tenant:
    tenant.path = f"{above}{tenant.pk}/"
    tenant.save(update_fields=["path"])
    return tenant


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise TenantRefused(_("A name has 1 to 64 printable characters."), "name_refused")
    return name


def _checked_code(code: str, taken: set[str]) -> str:
    code = code.strip().upper()
    if len(code) != 2 or not (code.isascii() and code.isalpha()):
        raise TenantRefused(_("A code has two letters from A to Z."), "code_refused")
    if code in taken:
        raise TenantRefused(_("The code %(code)s is taken.") % {"code": code}, "code_taken")
    return code


def _code_for(name: str, taken: set[str]) -> str:
    """Two letters of the name that nobody has, first letters first; or any free pair; or a pair shared with another."""
    letters = [letter for letter in name.upper() if letter.isascii() and letter.isalpha()] or ["T"]
    pairs = [letters[0] + second for second in [*letters[1:], *map(chr, range(65, 91))]]
    every = [chr(a) + chr(b) for a in range(65, 91) for b in range(65, 91)]
    return next((pair for pair in [*pairs, *every] if pair not in taken), pairs[0])


def _next_hue() -> int:
    """The hues go round, so that neighbours differ."""
    newest = Tenant.objects.aggregate(newest=Max("pk"))["newest"] or 0
    return newest % HUES + 1
