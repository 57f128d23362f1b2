"""The people of a tenant: who is in, with which role, and what a lead may do about it."""

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.links import mail_reset_link, reset_link
from portal.accounts.models import User
from portal.accounts.requests import SignedInRequest
from portal.tenants import people as services
from portal.tenants.errors import TenantRefused
from portal.tenants.forms import InviteForm, RoleForm
from portal.tenants.listing import open_invitations, people_of
from portal.tenants.models import Invitation, Membership, Role, Tenant
from portal.tenants.selectors import role_in, tenants_of

Change = Callable[..., HttpResponse]


@login_required
@require_safe
@never_cache
def people(request: SignedInRequest, tenant_id: int) -> HttpResponse:
    tenant = get_object_or_404(tenants_of(request.user), pk=tenant_id)
    return _page(request, tenant)


def by_a_lead(view: Change) -> Change:
    """A change that only a lead or admin may ask for; a refusal is shown on the page with 409."""

    @wraps(view)
    def change(request: SignedInRequest, tenant_id: int, **ids: int) -> HttpResponse:
        tenant = get_object_or_404(tenants_of(request.user, Role.LEAD), pk=tenant_id)
        try:
            return view(request, tenant, **ids)
        except TenantRefused as refusal:
            return _page(request, tenant, status=409, refusal=refusal.message)

    return login_required(require_POST(never_cache(change)))


@by_a_lead
def people_invite(request: SignedInRequest, tenant: Tenant) -> HttpResponse:
    form = InviteForm(request.POST, own=_own_role(request.user, tenant))
    if not form.is_valid():
        return _page(request, tenant, status=422, invite_form=form)
    invitation, link = services.invite(actor=request.user, tenant=tenant, **form.cleaned_data)
    return _page(request, tenant, link=link, link_for=invitation.email, link_is_invitation=True)


@by_a_lead
def people_role(request: SignedInRequest, tenant: Tenant, user_id: int) -> HttpResponse:
    form = RoleForm(request.POST, own=_own_role(request.user, tenant))
    if not form.is_valid():
        return _page(request, tenant, status=422, refusal=_("Choose one of the roles."))
    services.set_role(
        actor=request.user, tenant=tenant, person=_person(tenant, user_id), role=form.cleaned_data["role"]
    )
    return redirect("people", tenant.pk)


@by_a_lead
def people_remove(request: SignedInRequest, tenant: Tenant, user_id: int) -> HttpResponse:
    services.remove_member(actor=request.user, tenant=tenant, person=_person(tenant, user_id))
    if not tenants_of(request.user).filter(pk=tenant.pk).exists():
        return redirect("profile")
    return redirect("people", tenant.pk)


@by_a_lead
def people_disable(request: SignedInRequest, tenant: Tenant, user_id: int) -> HttpResponse:
    services.disable_person(actor=request.user, person=_person(tenant, user_id))
    return redirect("people", tenant.pk)


@by_a_lead
def people_enable(request: SignedInRequest, tenant: Tenant, user_id: int) -> HttpResponse:
    services.enable_person(actor=request.user, person=_person(tenant, user_id))
    return redirect("people", tenant.pk)


@by_a_lead
def people_reset(request: SignedInRequest, tenant: Tenant, user_id: int) -> HttpResponse:
    """Mail a link to set a new password and show it to be handed over; the old password stays good until then."""
    person = _person(tenant, user_id)
    services.check_may_manage(request.user, person)
    services.record_reset(actor=request.user, person=person)
    mail_reset_link(person)
    return _page(request, tenant, link=reset_link(person), link_for=person.email)


@by_a_lead
def invitation_withdraw(request: SignedInRequest, tenant: Tenant, invitation_id: int) -> HttpResponse:
    invitation = get_object_or_404(
        Invitation.objects.select_related("tenant"), tenant=tenant, pk=invitation_id, accepted_at__isnull=True
    )
    services.withdraw_invitation(actor=request.user, invitation=invitation)
    return redirect("people", tenant.pk)


def _person(tenant: Tenant, user_id: int) -> User:
    """Somebody with a role in this tenant itself; who is elsewhere does not exist here."""
    return get_object_or_404(Membership.objects.select_related("user"), tenant=tenant, user__pk=user_id).user


def _own_role(user: User, tenant: Tenant) -> Role:
    return role_in(user, tenant) or Role.VIEWER


def _page(
    request: SignedInRequest, tenant: Tenant, status: int = 200, **shown: InviteForm | str | bool
) -> HttpResponse:
    own = _own_role(request.user, tenant)
    leads = own in (Role.LEAD, Role.ADMIN)
    context = {
        "tenant": tenant,
        "rows": people_of(tenant, request.user, own),
        "leads": leads,
        "roles": RoleForm(own=own).fields["role"].choices,  # type: ignore[attr-defined]
        "invitations": open_invitations(tenant) if leads else [],
        "invite_form": InviteForm(own=own),
        **shown,
    }
    return render(request, "tenants/people.html", context, status=status)
