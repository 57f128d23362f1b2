"""The people of one tenant as its page shows them: own roles first, then those inherited from above."""

from dataclasses import dataclass

from portal.accounts.models import User
from portal.tenants.models import ROLE_RANK, Invitation, Membership, Role, Tenant


@dataclass(frozen=True)
class PersonRow:
    """``changeable``: the reader may set or take the role here. ``manageable``: may disable and reset the password."""

    person: User
    role: Role
    origin: Tenant
    own: bool
    changeable: bool
    manageable: bool


def people_of(tenant: Tenant, reader: User, own: Role) -> list[PersonRow]:
    """Three queries whatever the number of people."""
    held = Membership.objects.filter(tenant_id__in=tenant.ancestor_ids).select_related("user", "tenant")
    held = held.order_by("-tenant__path", "user__name", "user_id")
    rank = ROLE_RANK[own]
    leads = rank >= ROLE_RANK[Role.LEAD]
    manageable = _manageable([one.user_id for one in held], reader) if leads else set()
    return [
        PersonRow(
            person=one.user,
            role=Role(one.role),
            origin=one.tenant,
            own=one.tenant_id == tenant.pk,
            changeable=leads and one.tenant_id == tenant.pk and ROLE_RANK[Role(one.role)] <= rank,
            manageable=one.user_id in manageable and one.user_id != reader.pk,
        )
        for one in held
    ]


def _manageable(user_ids: list[int], reader: User) -> set[int]:
    """What ``people.may_manage`` says for each, asked once for all."""
    led = Membership.objects.filter(user=reader, role__in=[Role.LEAD, Role.ADMIN])
    mine = list(led.values_list("tenant__path", "tenant__parent_id", "role"))
    if any(parent is None and role == Role.ADMIN for _, parent, role in mine):
        return set(user_ids)
    held: dict[int, list[bool]] = {}
    rows = Membership.objects.filter(user_id__in=user_ids).values_list("user_id", "tenant__path", "role")
    for user_id, path, role in rows:
        above = [ROLE_RANK[Role(own)] for root, _, own in mine if path.startswith(root)]
        held.setdefault(user_id, []).append(bool(above) and max(above) >= ROLE_RANK[Role(role)])
    return {user_id for user_id, reached in held.items() if all(reached)}


def open_invitations(tenant: Tenant) -> list[Invitation]:
    """Not accepted yet, newest first; expired ones too, so that they can be sent anew."""
    return list(
        Invitation.objects.filter(tenant=tenant, accepted_at__isnull=True).select_related("invited_by").order_by("-pk")
    )
