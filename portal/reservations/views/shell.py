"""What the shell itself does: choose the tenant to work in, and find a thing by its name."""

import re

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from portal.inventory.models import Node
from portal.reservations.context import SESSION_KEY, PageRequest, shell_of
from portal.reservations.selectors import reservations_of
from portal.tenants.selectors import tenants_of

ID = re.compile(r"[0-9]{1,18}")
NUMBER = re.compile(r"(?:[Rr]-)?([0-9]{1,18})")
MOST = 25


@login_required
@require_POST
def tenant_choose(request: PageRequest) -> HttpResponse:
    """Remember for this session which of the reader's tenants the pages are about."""
    number = request.POST.get("tenant", "")
    tenant = get_object_or_404(tenants_of(request.user), pk=int(number) if ID.fullmatch(number) else 0)
    request.session[SESSION_KEY] = tenant.pk
    back = request.POST.get("next", "/")
    inside = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    return redirect(back if inside and back.startswith("/") else "/")


@login_required
@require_GET
def find(request: PageRequest) -> HttpResponse:
    """Reservations by number or name, nodes and tenants by name: only what the reader may see."""
    words = request.GET.get("q", "").replace("\0", "").strip()[:100]
    seen = reservations_of(request.user).select_related("workload", "tenant", "profile")
    number = NUMBER.fullmatch(words)
    if number:
        exact = seen.filter(pk=int(number[1])).first()
        if exact:
            return redirect("reservation", number=exact.pk)
    found: dict = {"words": words, "reservations": [], "nodes": [], "tenants": []}
    if words:
        found["reservations"] = list(seen.filter(workload__name__icontains=words).order_by("-id")[:MOST])
        found["nodes"] = list(Node.objects.filter(name__icontains=words)[:MOST])
        named = [tenant for tenant in shell_of(request).tenants if words.casefold() in tenant.name.casefold()]
        found["tenants"] = named[:MOST]
    return render(request, "reservations/find.html", found)
