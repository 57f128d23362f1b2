"""Weights of a pool's profiles, on the page of the pool."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.requests import SignedInRequest
from portal.inventory.errors import InventoryRefused
from portal.inventory.forms import PoolLimitsForm, WeightForm, limits_shown
from portal.inventory.models import Pool, Profile
from portal.inventory.views import for_platform_admins
from portal.inventory.weights import set_weight, weights_listed


@require_POST
@for_platform_admins
def profile_weight(request: SignedInRequest, pool_id: int, profile_id: int) -> HttpResponse:
    """Every pool of that model and mode shares the profile, and so its weight."""
    pool = get_object_or_404(Pool, pk=pool_id)
    profile = get_object_or_404(Profile, pk=profile_id, gpu_model=pool.gpu_model, mig=pool.mig)
    form = WeightForm(request.POST)
    if not form.is_valid():
        return _refused(request, pool, profile, str(form.errors["weight"][0]), 422)
    try:
        changed = set_weight(actor=request.user, profile=profile, weight=form.cleaned_data["weight"])
    except InventoryRefused as refusal:
        return _refused(request, pool, profile, str(refusal), 409)
    numbers = {"profile": changed.name, "weight": changed.weight}
    messages.success(request, _("%(profile)s weighs %(weight)d from now on.") % numbers)
    return redirect("pool", pool_id)


def _refused(request: SignedInRequest, pool: Pool, profile: Profile, why: str, status: int) -> HttpResponse:
    """The page of the pool with the line open, what was typed, and the sentence below it."""
    context = {
        "form": PoolLimitsForm(initial=limits_shown(pool)),
        "pool": pool,
        "weights": weights_listed(pool),
        "refused_profile": profile,
        "weight_refusal": why,
        "weight_typed": request.POST.get("weight", ""),
    }
    return render(request, "nodes/pool.html", context, status=status)
