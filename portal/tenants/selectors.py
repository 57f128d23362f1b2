"""The one scoped selector: what a person may see and do. Pages, API, sockets and exports all come through here."""

from collections.abc import Iterable

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import CharField, ExpressionWrapper, F, OuterRef, Q, QuerySet

from portal.accounts.models import User
from portal.tenants.models import ROLE_RANK, Membership, Role, Tenant


def tenants_of(user: User, at_least: Role = Role.VIEWER) -> QuerySet[Tenant]:
    """Tenants where ``user`` holds ``at_least`` this role, inherited from above; none for the disabled."""
    if not user.is_authenticated or not user.is_active:
        return Tenant.objects.none()
    roles = [role for role, rank in ROLE_RANK.items() if rank >= ROLE_RANK[at_least]]
    return tenants_below(Membership.objects.filter(user=user, role__in=roles).values_list("tenant__path", flat=True))


def tenants_below(paths: Iterable[str]) -> QuerySet[Tenant]:
    """The tenants of these paths and everything below them: what memberships there let their person see."""
    below = Q(pk__in=[])
    for path in paths:
        below |= Q(path__startswith=path)
    return Tenant.objects.filter(below)


def _held_above(user_id: int) -> QuerySet[Membership]:
    """What the person holds in the tenant of the outer query and in those above it."""
    path = ExpressionWrapper(OuterRef("path"), output_field=CharField())
    return Membership.objects.filter(user=user_id).alias(seen=path).filter(seen__startswith=F("tenant__path"))


def tenant_and_roles(user: User, pk: int) -> tuple[Tenant, list[Role]] | None:
    """A tenant that ``user`` sees, with all that they hold in it and above it; None for any other. One query."""
    if not user.is_active:
        return None
    held = _held_above(user.pk).order_by().values("role")
    tenant = Tenant.objects.filter(pk=pk).annotate(roles=ArraySubquery(held)).first()
    roles = [Role(role) for role in tenant.roles] if tenant else []
    return (tenant, roles) if tenant and roles else None


def role_in(user: User, tenant: Tenant) -> Role | None:
    """The strongest role that ``user`` holds in ``tenant``, its own or inherited."""
    if not user.is_active:
        return None
    held = Membership.objects.filter(user=user, tenant_id__in=tenant.ancestor_ids).values_list("role", flat=True)
    return max((Role(role) for role in held), key=ROLE_RANK.__getitem__, default=None)


def may(user: User, tenant: Tenant, at_least: Role) -> bool:
    role = role_in(user, tenant)
    return role is not None and ROLE_RANK[role] >= ROLE_RANK[at_least]


def is_platform_admin(user: User) -> bool:
    """Admin of the root tenant: pools, nodes and the whole tree are theirs."""
    held = Membership.objects.filter(user=user, role=Role.ADMIN, tenant__parent__isnull=True)
    return user.is_active and held.exists()


def subtree(tenant: Tenant) -> QuerySet[Tenant]:
    """The tenant and everything below it."""
    return Tenant.objects.filter(path__startswith=tenant.path)


def root_tenant() -> Tenant | None:
    return Tenant.objects.filter(parent__isnull=True).first()
