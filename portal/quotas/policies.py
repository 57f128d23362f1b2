"""What binds a tenant's people: the policies from the root down to it, of which the tightest counts."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from portal.quotas.images import both
from portal.quotas.models import Budget, Policy
from portal.tenants.models import Tenant

# The smallest of these counts, of the sets what is in all of them.
NUMBERS = (
    "longest_window_seconds", "book_ahead_seconds", "most_weight_each", "approval_above_slice_seconds",
    "protected_seconds",
)  # fmt: skip
SETS = ("pool_ids", "profiles", "images")
PROTECTED = "protected_seconds"
FIELDS = NUMBERS[:3] + SETS + NUMBERS[3:]


@dataclass(frozen=True)
class EffectivePolicy:
    """The policy that counts for one tenant. None is no limit.

    ``origins`` names the tenant that each value comes from. ``weight_rules`` holds every limit of what one person holds
    at once, since each counts in the subtree of its own tenant.
    """

    longest_window_seconds: int | None = None
    book_ahead_seconds: int | None = None
    most_weight_each: int | None = None
    pool_ids: frozenset[int] | None = None
    profiles: frozenset[str] | None = None
    images: tuple[str, ...] | None = None
    approval_above_slice_seconds: int | None = None
    protected_seconds: int = field(default_factory=lambda: settings.PROTECTED_SECONDS)
    weight_rules: tuple[tuple[Tenant, int], ...] = ()
    origins: Mapping[str, Tenant] = field(default_factory=dict, compare=False)


def policy_of(tenant: Tenant) -> EffectivePolicy:
    """In one query, whatever the depth."""
    return policies_of([tenant])[tenant.pk]


def policies_of(tenants: Iterable[Tenant]) -> dict[int, EffectivePolicy]:
    """By tenant, in one query for all."""
    tenants = list(tenants)
    ids = {above for tenant in tenants for above in tenant.ancestor_ids}
    return effective(tenants, Policy.objects.filter(tenant_id__in=ids).select_related("tenant"))


def policy_and_budgets(tenant: Tenant) -> tuple[EffectivePolicy, list[Budget]]:
    """What binds the tenant beside its quotas, budgets root first: one query for both."""
    chain = Tenant.objects.filter(pk__in=tenant.ancestor_ids).select_related("policy", "budget").order_by("path")
    policies = [above.policy for above in chain if hasattr(above, "policy")]
    budgets = [above.budget for above in chain if hasattr(above, "budget")]
    return effective([tenant], policies)[tenant.pk], budgets


def effective(tenants: Iterable[Tenant], policies: Iterable[Policy]) -> dict[int, EffectivePolicy]:
    """By tenant, from the rows of all tenants from the root down to each."""
    rows = {row.tenant_id: row for row in policies}
    chains = {tenant.pk: [rows[pk] for pk in tenant.ancestor_ids if pk in rows] for tenant in tenants}
    return {pk: functools.reduce(_tightened, chain, EffectivePolicy()) for pk, chain in chains.items()}


def _tightened(above: EffectivePolicy, row: Policy) -> EffectivePolicy:
    """What is left of ``above`` below the tenant of this row."""
    changes: dict[str, Any] = {}
    for name in NUMBERS:
        value, limit = getattr(row, name), getattr(above, name)
        # A default is nobody's value: the first that is set replaces it, also by a larger one.
        is_default = name == PROTECTED and name not in above.origins
        if value is not None and (limit is None or is_default or value < limit):
            changes[name] = value
    for name in SETS:
        value, limit = getattr(row, name), getattr(above, name)
        if value is not None and (left := _both(name, limit, value)) != limit:
            changes[name] = left
    if not changes and row.most_weight_each is None:
        return above
    rules = above.weight_rules
    if row.most_weight_each is not None:
        rules += ((row.tenant, row.most_weight_each),)
    origins = {**above.origins, **dict.fromkeys(changes, row.tenant)}
    return replace(above, **changes, weight_rules=rules, origins=origins)


def _both(name: str, above: Any, value: list) -> Any:
    if name == "images":
        return tuple(value) if above is None else both(above, value)
    return frozenset(value) if above is None else above & frozenset(value)
