"""The page of tenants and quotas: the tree for one pool, and beside it the tenant that is chosen."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from portal.accounts.requests import SignedInRequest
from portal.inventory.models import Pool
from portal.quotas.models import Period
from portal.quotas.policies import effective
from portal.quotas.words import hours_words, valid_words
from portal.reports.tenant_changes import last_changes
from portal.reports.tenant_policy import policy_rows
from portal.reports.tenant_tree import TreeRow, may_set_limits, split_above, split_below, tree_rows, with_limits
from portal.reports.views import chosen_tenant
from portal.reservations.context import Shell, shell_of
from portal.reservations.templatetags.berth_format import WEEKDAYS
from portal.tenants.models import ROLE_RANK, Membership, Role, Tenant

PEOPLE_SHOWN = 20


def tenants_page(request: SignedInRequest, more: dict[str, Any], status: int = 200) -> HttpResponse:
    """``more``: the tenant that is edited with what was typed and why it was refused, or what was saved."""
    shell, now = shell_of(request), timezone.now()
    asked = request.POST if request.method == "POST" else request.GET
    pools = list(Pool.objects.all())
    pool = next((one for one in pools if str(one.pk) == asked.get("pool", "")), pools[0] if pools else None)
    selected = more.get("editing") or more.get("saved") or chosen_tenant(shell, request.GET.get("tenant", ""))
    words = asked.get("q", "").strip()[:100]
    above = selected.ancestor_ids if selected else []
    limits = with_limits([*(tenant.pk for tenant in shell.tenants), *above])
    rows = tree_rows(shell, pool, now, limits)
    context = {
        "rows": [row for row in rows if words.casefold() in row.tenant.name.casefold()],
        "pools": pools,
        "pool": pool,
        "words": words,
        "selected": selected,
        "periods": Period.choices,
        "may_add": any(shell.may(tenant, Role.ADMIN) for tenant in shell.tenants),
        **more,
    }
    if selected is not None:
        policies = [one.policy for one in limits if one.pk in above and hasattr(one, "policy")]
        context |= _details(shell, selected, rows) | _limits(shell, selected, rows)
        context["policy"] = policy_rows(selected, effective([selected], policies)[selected.pk], pools)
    if more.get("editing"):
        context["split"] = split_above(more["editing"], rows)
    return render(request, "tenants/page.html", context, status=status)


def _details(shell: Shell, tenant: Tenant, rows: list[TreeRow]) -> dict[str, Any]:
    """Who is in it, strongest and nearest first, what it has spent, and what was changed about it."""
    held = Membership.objects.filter(tenant_id__in=tenant.ancestor_ids).select_related("user", "tenant")
    people = sorted(held, key=lambda one: (-len(one.tenant.path), -ROLE_RANK[Role(one.role)], str(one.user), one.pk))
    return {
        "people": [(one, one.tenant_id != tenant.pk) for one in people[:PEOPLE_SHOWN]],
        "people_count": len(people),
        "leads": shell.may(tenant, Role.LEAD),
        "changes": last_changes(tenant.pk),
        "budgets": [row.budget for row in rows if row.tenant == tenant and row.budget],
    }


def _limits(shell: Shell, tenant: Tenant, rows: list[TreeRow]) -> dict[str, Any]:
    """Its quota in the pool with the split among its sub-teams."""
    row = next((row for row in rows if row.tenant == tenant), None)
    return {
        "row_selected": row,
        "quota_rows": [
            (one, valid_words(one.valid), hours_words(one.open_hours, tenant.time_zone) if one.open_hours else "")
            for one in (row.quotas if row else ())
        ],
        "split_selected": split_below(row, rows) if row else None,
        "may_limit": may_set_limits(shell, tenant),
        "weekdays": WEEKDAYS,
    }
