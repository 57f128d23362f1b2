"""From a request to a booking: ids become rows through the scoped selector, and the service decides the rest."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from portal.accounts.models import User
from portal.accounts.requests import SignedInApiRequest
from portal.inventory.models import Pool, Profile
from portal.reservations.alternatives import HAS_WAYS_ON
from portal.reservations.availability import with_alternatives
from portal.reservations.booking import book_reservation
from portal.reservations.errors import ProfileUnknown
from portal.reservations.models import Reservation
from portal.reservations.queueing import queue_request
from portal.reservations.selectors import profiles_of
from portal.reservations.waitlist import join_waitlist
from portal.reservations.windows import make_window
from portal.tenants.models import Membership, Role, Tenant
from portal.tenants.selectors import tenants_of
from portal.workloads.drafts import WorkloadDraft, draft_from_template
from portal.workloads.models import Template

LONGEST_KEY = 100


def book(request: SignedInApiRequest, asked: dict) -> Reservation:
    """The reservation; it says whether the key had booked it before."""
    user = request.user
    tenant = get_object_or_404(tenants_of(user), pk=asked["tenant"])
    pool = get_object_or_404(Pool, pk=asked["pool"])
    key = key_of(request)
    owner, workload = _owner(user, tenant, asked.get("owner")), draft_of(tenant, asked)
    profile = profile_named(pool, asked["profile"])
    what: dict[str, Any] = {"tenant": tenant, "pool": pool, "profile": profile, "ranks": asked["ranks"]}
    who: dict[str, Any] = {"created_by": user, "owner": owner, "workload": workload, "key": key}
    if "seconds" in asked:
        times: dict[str, Any] = {name: asked.get(name) for name in ("seconds", "not_before", "give_up_at")}
        return queue_request(**who, **what, **times)
    what["during"] = make_window(asked["start"], asked["end"])
    if asked["waitlist"]:
        return join_waitlist(**who, **what)
    node_id = asked.get("node")
    try:
        return book_reservation(**who, **what, node_id=node_id, together=asked.get("together"))
    except HAS_WAYS_ON as refusal:
        if node_id is not None:  # ways on are looked for in the whole pool
            raise
        raise with_alternatives(refusal, owner=owner, **what) from refusal


def key_of(request: SignedInApiRequest) -> str:
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise ValidationError({"Idempotency-Key": [_("Use up to 100 printable ASCII characters.")]})
    return key


def profile_named(pool: Pool, name: str) -> Profile:
    profile = profiles_of(pool).filter(name=name).first()
    if profile is None:
        known = ", ".join(profiles_of(pool).values_list("name", flat=True))
        text = _("%(pool)s has no profile %(profile)s.") % {"pool": pool, "profile": name}
        raise ProfileUnknown(text, {"profiles": known}, field="profile")
    return profile


def _owner(user: User, tenant: Tenant, owner_id: int | None) -> User:
    """The asker, or a member for whom a lead asks; anybody else does not exist here."""
    if owner_id is None or owner_id == user.pk:
        return user
    leads = tenants_of(user, Role.LEAD).filter(pk=tenant.pk).exists()
    held = Membership.objects.filter(user_id=owner_id, user__is_active=True, tenant_id__in=tenant.ancestor_ids)
    member = get_object_or_404(held.select_related("user")[:1] if leads else held.none())
    return member.user


def draft_of(tenant: Tenant, asked: dict) -> WorkloadDraft:
    if "template" in asked:
        offered = Template.objects.filter(tenant_id__in=tenant.ancestor_ids)
        return draft_from_template(get_object_or_404(offered, pk=asked["template"]), asked["name"])
    workload = asked["workload"]
    return WorkloadDraft(
        name=workload["name"],
        image=workload["image"],
        command=tuple(workload["command"]),
        environment=workload["environment"],
        grace_seconds=workload["grace_seconds"],
        rank_loss=workload["rank_loss"],
        restarts_most=workload["restarts_most"],
    )
