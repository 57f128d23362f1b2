"""What one of a profile counts in quota, price and budget, and since when. Reservations keep the weight they booked."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Prefetch
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Pool, Profile, ProfileWeight
from portal.tenants.selectors import is_platform_admin

WEIGHT_MOST = 1000


@dataclass(frozen=True)
class WeightRow:
    """A profile of a pool and every weight it had, the newest first."""

    profile: Profile
    history: tuple[ProfileWeight, ...]


@transaction.atomic
def set_weight(*, actor: User, profile: Profile, weight: int) -> Profile:
    """What is booked from now on weighs this much; what is booked already keeps its weight, and so do old reports.

    Locks the pools that have the profile, by id, as a booking does. The same weight again changes nothing.
    """
    if not is_platform_admin(actor):
        raise InventoryRefused(_("Weights are set by platform admins."))
    if not 1 <= weight <= WEIGHT_MOST:
        raise InventoryRefused(_("A weight is 1 to %(most)d.") % {"most": WEIGHT_MOST})
    pools = Pool.objects.filter(gpu_model=profile.gpu_model, mig=profile.mig).order_by("pk")
    list(pools.select_for_update(no_key=True).values_list("pk", flat=True))
    profile = Profile.objects.select_for_update(no_key=True).get(pk=profile.pk)
    before = profile.weight
    if before == weight:
        return profile
    Profile.objects.filter(pk=profile.pk).update(weight=weight)
    ProfileWeight.objects.create(profile=profile, weight=weight, set_by=actor)
    record_change(
        actor=actor, action="profile.weight_set", subject=f"{profile.gpu_model} {profile.name}",
        before={"weight": before}, after={"weight": weight},
    )  # fmt: skip
    profile.refresh_from_db()
    return profile


def note_first_weights(gpu_models: Iterable[str]) -> None:
    """Begin the history of those models' profiles that have none, with the weight they have."""
    new = Profile.objects.filter(gpu_model__in=gpu_models, weights__isnull=True)
    ProfileWeight.objects.bulk_create(ProfileWeight(profile=profile, weight=profile.weight) for profile in new)


def weights_listed(pool: Pool) -> list[WeightRow]:
    """The profiles that the pool's GPUs offer, with their history. Two queries."""
    history = ProfileWeight.objects.select_related("set_by").order_by("-since", "-id")
    if not pool.gpu_model or pool.mig is None:  # no GPU has joined yet
        return []
    profiles = Profile.objects.filter(gpu_model=pool.gpu_model, mig=pool.mig)
    rows = profiles.prefetch_related(Prefetch("weights", queryset=history))
    return [WeightRow(profile, tuple(profile.weights.all())) for profile in rows]
