"""Ranks that work as one group, and the one node that somebody asks for: what can be, and why not."""

from django.db.models import Min, QuerySet
from django.utils.translation import gettext as _

from portal.inventory.models import Pool, Profile
from portal.reservations.errors import GroupRefused, NodeRefused
from portal.reservations.pool_fleet import Fleet
from portal.reservations.request import Request
from portal.reservations.selectors import profiles_of
from portal.tenants.models import Tenant


def check_group(request: Request, fleet: Fleet) -> None:
    """Slices of GPUs with MIG on have no links, not even those of one GPU: only whole GPUs work together."""
    if request.node_id is not None and request.node_id not in {gpu.node_id for gpu in fleet.gpus}:
        raise NodeRefused(_("This node has no GPU of %(pool)s.") % {"pool": request.pool}, field="node")
    refusal = group_refusal(request.tenant, request.profile, request.ranks, request.together)
    if refusal is not None:
        raise refusal


def group_refusal(tenant: Tenant, profile: Profile, ranks: int, together: bool | None) -> GroupRefused | None:
    """Why these cannot work as one group, with the whole GPUs that can, or None."""
    if not together or ranks == 1 or not profile.mig:
        return None
    whole = wholes_instead(tenant).first()
    numbers: dict[str, int | str] = {"ranks": ranks, "profile": profile.name}
    sentence = _("Slices cannot reach each other: %(ranks)d × %(profile)s cannot work as one group.") % numbers
    if whole is not None:
        sentence += " " + _("Whole GPUs of %(pool)s can.") % {"pool": whole}
        numbers |= {"pool_instead": whole.pk, "profile_instead": whole_profile(whole).name}
    return GroupRefused(sentence, numbers, field="together")


def whole_profile(pool: Pool) -> Profile:
    return profiles_of(pool).get(whole=True)


def wholes_instead(tenant: Tenant) -> QuerySet[Pool]:
    """Pools of whole GPUs, by name, of which no limit keeps the tenant out altogether."""
    known = Profile.objects.filter(mig=False, whole=True).values("gpu_model")
    pools = Pool.objects.filter(mig=False, gpu_model__in=known, quotas__tenant_id__in=tenant.ancestor_ids)
    return pools.annotate(least=Min("quotas__limit")).filter(least__gt=0).order_by("name", "pk")
