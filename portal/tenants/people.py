"""Who holds which role in a tenant. Its row is the lock, so that two admins cannot remove each other at once."""

import hashlib
import secrets

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from portal.accounts import services as accounts
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.events import tell_user_on_commit
from portal.notices.mail import send_mail_on_commit
from portal.tenants.errors import TenantRefused
from portal.tenants.models import ROLE_RANK, Invitation, Membership, Role, Tenant
from portal.tenants.selectors import is_platform_admin, may, role_in, tenants_of


@transaction.atomic
def set_role(*, actor: User, tenant: Tenant, person: User, role: Role) -> Membership:
    """Give ``person`` this role in ``tenant``; never above one's own, never taking the last admin off the root."""
    _lock(tenant)
    _check_may_give(actor, tenant, role)
    held = Membership.objects.filter(user=person, tenant=tenant).first()
    if held is None:
        held = Membership.objects.create(user=person, tenant=tenant, role=role)
        before = {}
    else:
        _check_may_change(actor, tenant, Role(held.role))
        before = {"role": str(held.role)}
        _keep_an_admin(tenant, held, stays_admin=role == Role.ADMIN)
        held.role = role
        held.save(update_fields=["role"])
    _tell(actor, tenant, person, "member.role_set", before, {"role": str(role)})
    return held


@transaction.atomic
def remove_member(*, actor: User, tenant: Tenant, person: User) -> None:
    """Take the role that ``person`` holds in this very tenant; what they inherit from above stays."""
    _lock(tenant)
    held = Membership.objects.filter(user=person, tenant=tenant).first()
    if held is None:
        raise TenantRefused(
            _("%(person)s holds no role in %(tenant)s itself.") % {"person": person, "tenant": tenant}, "not_held"
        )
    _check_may_change(actor, tenant, Role(held.role))
    _keep_an_admin(tenant, held, stays_admin=False)
    held.delete()
    _tell(actor, tenant, person, "member.removed", {"role": str(held.role)}, {})


@transaction.atomic
def invite(*, actor: User, tenant: Tenant, email: str, role: Role) -> tuple[Invitation, str]:
    """The invitation and its link, which exists only here and in the mail. A newer one replaces an older one."""
    _check_may_give(actor, tenant, role)
    if tenant.closed_at:
        raise TenantRefused(_("%(tenant)s is closed.") % {"tenant": tenant}, "closed")
    email = email.strip().lower()
    if Membership.objects.filter(tenant=tenant, user__email__iexact=email).exists():
        raise TenantRefused(
            _("%(email)s is in %(tenant)s already.") % {"email": email, "tenant": tenant}, "held_already"
        )
    Invitation.objects.filter(tenant=tenant, email=email, accepted_at__isnull=True).delete()
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        tenant=tenant, email=email, role=role, token_hash=_hash(token), invited_by=actor,
        expires_at=timezone.now() + settings.INVITATION_LIFETIME,
    )  # fmt: skip
    record_change(
        actor=actor, action="member.invited", subject=f"invitation {invitation.pk}", tenant_id=tenant.pk,
        after={"email": email, "role": str(role)},
    )  # fmt: skip
    link = settings.PORTAL_URL + reverse("invitation", args=[token])
    _mail_invitation(invitation, link)
    return invitation, link


@transaction.atomic
def withdraw_invitation(*, actor: User, invitation: Invitation) -> None:
    _check_may_give(actor, invitation.tenant, Role(invitation.role))
    record_change(
        actor=actor, action="member.invitation_withdrawn", subject=f"invitation {invitation.pk}",
        tenant_id=invitation.tenant_id, before={"email": invitation.email, "role": str(invitation.role)},
    )  # fmt: skip
    invitation.delete()


def open_invitation(token: str) -> Invitation | None:
    """The invitation of this link while it can be accepted: not used, not expired, and its giver may still give it."""
    found = (
        Invitation.objects.filter(token_hash=_hash(token), accepted_at__isnull=True, expires_at__gt=timezone.now())
        .filter(tenant__closed_at__isnull=True)
        .select_related("tenant", "invited_by")
        .first()
    )
    if found is None or not _may_give(found.invited_by, found.tenant, Role(found.role)):
        return None
    return found


@transaction.atomic
def accept_invitation(
    *, token: str, person: User | None = None, name: str = "", password: str = "", language: str = "en"
) -> User:
    """Join as ``person``, whose address must be the invited one, or as somebody new. Never lowers a role."""
    invitation = open_invitation(token)
    taken = invitation and Invitation.objects.filter(pk=invitation.pk, accepted_at__isnull=True).update(
        accepted_at=timezone.now()
    )
    if invitation is None or not taken:
        raise TenantRefused(_("This invitation was used already, withdrawn, or has expired."), "invitation_gone")
    if person is None:
        if User.objects.filter(email__iexact=invitation.email).exists():
            raise TenantRefused(
                _("%(email)s has an account: sign in first.") % {"email": invitation.email}, "sign_in_first"
            )
        person = accounts.create_person(email=invitation.email, name=name, password=password, language=language)
    elif person.email.lower() != invitation.email.lower():
        text = _("The invitation is for %(email)s, and you are signed in as %(you)s.")
        raise TenantRefused(text % {"email": invitation.email, "you": person.email}, "other_person")
    held, created = Membership.objects.get_or_create(
        user=person, tenant=invitation.tenant, defaults={"role": invitation.role}
    )
    before = {} if created else {"role": str(held.role)}
    if not created and ROLE_RANK[Role(held.role)] < ROLE_RANK[Role(invitation.role)]:
        held.role = invitation.role
        held.save(update_fields=["role"])
    _tell(person, invitation.tenant, person, "member.joined", before, {"role": str(held.role)})
    return person


@transaction.atomic
def disable_person(*, actor: User, person: User) -> None:
    """End the person's sessions, tokens and sockets, and keep them out. Leads reach who is in their tenants alone."""
    check_may_manage(actor, person)
    if actor.pk == person.pk:
        raise TenantRefused(_("Nobody can disable themselves."), "yourself")
    for held in Membership.objects.filter(user=person, tenant__parent__isnull=True).select_related("tenant"):
        _lock(held.tenant)
        _keep_an_admin(held.tenant, held, stays_admin=False)
    accounts.disable(person=person, actor=actor)


@transaction.atomic
def enable_person(*, actor: User, person: User) -> None:
    check_may_manage(actor, person)
    accounts.enable(person=person, actor=actor)


def record_reset(*, actor: User, person: User) -> None:
    """Leave a trace that ``actor`` had a link made with which ``person`` sets a password."""
    record_change(actor=actor, action="person.reset_link_made", subject=f"user {person.pk}")


def may_manage(actor: User, person: User) -> bool:
    """A platform admin anybody; a lead those whose every role lies in tenants they lead and is not above their own."""
    if is_platform_admin(actor):
        return True
    held = list(Membership.objects.filter(user=person).select_related("tenant"))
    led = set(tenants_of(actor, Role.LEAD).filter(pk__in=[one.tenant_id for one in held]).values_list("pk", flat=True))
    return bool(held) and all(one.tenant_id in led and _may_give(actor, one.tenant, Role(one.role)) for one in held)


def check_may_manage(actor: User, person: User) -> None:
    if not may_manage(actor, person):
        raise TenantRefused(
            _("Only somebody who leads every tenant of %(person)s may do that.") % {"person": person}, "no_access"
        )


def _lock(tenant: Tenant) -> None:
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


def _may_give(actor: User, tenant: Tenant, role: Role) -> bool:
    own = role_in(actor, tenant)
    return own is not None and may(actor, tenant, Role.LEAD) and ROLE_RANK[own] >= ROLE_RANK[role]


def _check_may_give(actor: User, tenant: Tenant, role: Role) -> None:
    if not _may_give(actor, tenant, role):
        raise TenantRefused(
            _("Only a lead or admin of %(tenant)s may do that, up to their own role.") % {"tenant": tenant}, "no_access"
        )


def _check_may_change(actor: User, tenant: Tenant, held: Role) -> None:
    if not _may_give(actor, tenant, held):
        raise TenantRefused(_("That role is above your own in %(tenant)s.") % {"tenant": tenant}, "no_access")


def _keep_an_admin(tenant: Tenant, held: Membership, *, stays_admin: bool) -> None:
    if tenant.parent_id is not None or held.role != Role.ADMIN or stays_admin:
        return
    others = Membership.objects.filter(tenant=tenant, role=Role.ADMIN, user__is_active=True).exclude(pk=held.pk)
    if not others.exists():
        raise TenantRefused(_("%(tenant)s needs at least one admin.") % {"tenant": tenant}, "last_admin")


def _tell(actor: User, tenant: Tenant, person: User, action: str, before: dict, after: dict) -> None:
    record_change(
        actor=actor, action=action, subject=f"user {person.pk}", tenant_id=tenant.pk, before=before, after=after
    )
    tell_user_on_commit(person.pk, "rights.changed")


def _mail_invitation(invitation: Invitation, link: str) -> None:
    known = User.objects.filter(email__iexact=invitation.email).first()
    with translation.override(known.language if known else invitation.invited_by.language):
        parts = {"person": invitation.invited_by, "tenant": invitation.tenant, "link": link}
        text = _("%(person)s invites you to %(tenant)s on Berth. Open this link within 7 days:\n\n%(link)s") % parts
        send_mail_on_commit(invitation.email, _("Invitation to %(tenant)s") % parts, text)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
