"""Setting a tenant's policy: by who decides about its limits, and never looser than what stands above it."""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.events import tell_everybody_on_commit
from portal.inventory.models import Pool, Profile
from portal.quotas.errors import PolicyLoosened, QuotaRefused
from portal.quotas.images import covers, is_pattern
from portal.quotas.models import Policy
from portal.quotas.policies import FIELDS, NUMBERS, PROTECTED, SETS, EffectivePolicy, policy_of
from portal.quotas.services import MOST_SLICE_SECONDS, MOST_WEIGHT, check_actor, check_number
from portal.quotas.words import length, listed, slice_hours
from portal.tenants.models import Tenant

LONGEST_SECONDS = 10 * 366 * 86400
MOST_ENTRIES = 100
MOST = {
    "longest_window_seconds": LONGEST_SECONDS, "book_ahead_seconds": LONGEST_SECONDS, PROTECTED: LONGEST_SECONDS,
    "most_weight_each": MOST_WEIGHT, "approval_above_slice_seconds": MOST_SLICE_SECONDS,
}  # fmt: skip


@transaction.atomic
def set_policy(*, actor: User, tenant: Tenant, **fields: Any) -> Policy:
    """Change the fields that are named, None to inherit them; raises :class:`QuotaRefused`.

    ``longest_window_seconds``, ``book_ahead_seconds``, ``protected_seconds``, ``most_weight_each`` (what one person
    holds at a moment), ``approval_above_slice_seconds``; ``pool_ids``, ``profiles`` (names), ``images`` (patterns).
    Locks all pools by id: a policy binds bookings in each of them.
    """
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise TypeError(f"no such fields: {unknown}")
    check_actor(actor, tenant)
    pools = {pool.pk: pool for pool in Pool.objects.select_for_update(no_key=True).order_by("pk")}
    above = policy_of(tenant.parent) if tenant.parent else None
    for name in NUMBERS:
        if fields.get(name) is not None:
            check_number(fields[name], MOST[name], name)
            _check_not_looser(name, fields[name], tenant, above)
    for name in SETS:
        if fields.get(name) is not None:
            fields[name] = _checked_set(name, fields[name], pools)
            _check_subset(name, fields[name], tenant, above, pools)
    policy = Policy.objects.filter(tenant=tenant).first() or Policy(tenant=tenant)
    before = {name: getattr(policy, name) for name in fields}
    changed = {name: value for name, value in fields.items() if value != before[name]}
    if not changed:
        return policy
    for name, value in changed.items():
        setattr(policy, name, value)
    policy.save()
    record_change(
        actor=actor, action="policy.set", subject=f"policy of {tenant}", tenant_id=tenant.pk,
        before={name: before[name] for name in changed}, after=changed)  # fmt: skip
    tell_everybody_on_commit("quota.changed", tenant=tenant.pk)
    return policy


def _check_not_looser(name: str, value: int, tenant: Tenant, above: EffectivePolicy | None) -> None:
    limit = getattr(above, name) if above else None
    if limit is None or value <= limit:
        return
    said = {"child": tenant, "value": _amount(name, value), "limit": _amount(name, limit)}
    origin = above.origins.get(name) if above else None
    evidence: dict[str, int | str] = {"limit": limit, "asked": value}
    if origin is None:
        sentence = _("Berth protects a run for %(limit)s; %(child)s cannot have %(value)s.") % said
        raise PolicyLoosened(sentence, evidence, name)
    sentences = {
        "longest_window_seconds": _(
            "The longest window of %(tenant)s is %(limit)s; %(child)s below it cannot have %(value)s."
        ),
        "book_ahead_seconds": _("%(tenant)s books at most %(limit)s ahead; %(child)s below it cannot have %(value)s."),
        "most_weight_each": _(
            "A person of %(tenant)s holds at most %(limit)s at once; %(child)s below it cannot have %(value)s."
        ),
        "approval_above_slice_seconds": _(
            "%(tenant)s wants approval above %(limit)s; %(child)s below it cannot have %(value)s."
        ),
        PROTECTED: _("%(tenant)s protects a run for %(limit)s; %(child)s below it cannot have %(value)s."),
    }
    raise PolicyLoosened(sentences[name] % {**said, "tenant": origin}, {**evidence, "tenant": str(origin)}, name)


def _amount(name: str, value: int) -> str:
    if name == "most_weight_each":
        return str(value)
    return slice_hours(value) if name == "approval_above_slice_seconds" else length(value)


def _checked_set(name: str, values: Collection, pools: dict[int, Pool]) -> list:
    """Sorted, each once; refuses what does not exist, and an empty list, which nobody could book with."""
    if not values:
        raise QuotaRefused(_("Allow at least one, or leave it as above."), field=name)
    if len(values) > MOST_ENTRIES:
        raise QuotaRefused(_("At most %(most)d entries.") % {"most": MOST_ENTRIES}, {"most": MOST_ENTRIES}, name)
    if name == "images":
        unknown = [text for text in values if not is_pattern(text)]
    elif name == "profiles":
        unknown = sorted(set(values) - set(Profile.objects.filter(name__in=values).values_list("name", flat=True)))
    else:
        unknown = sorted(set(values) - set(pools))
    if unknown:
        sentences = {
            "images": _("“%(what)s” is no image name. Write a name, or its beginning with * at the end."),
            "profiles": _("No pool has a profile “%(what)s”."),
            "pool_ids": _("There is no pool %(what)s."),
        }
        raise QuotaRefused(sentences[name] % {"what": str(unknown[0])[:80]}, field=name)
    return sorted(set(values))


def _check_subset(
    name: str, values: list, tenant: Tenant, above: EffectivePolicy | None, pools: dict[int, Pool]
) -> None:
    allowed = getattr(above, name) if above else None
    if above is None or allowed is None:
        return
    if name == "images":
        more = [value for value in values if not any(covers(upper, value) for upper in allowed)]
    else:
        more = [value for value in values if value not in allowed]
    if more:
        names = [str(pools[pk]) for pk in more] if name == "pool_ids" else more
        shown = {"tenant": above.origins[name], "what": listed(names), "child": tenant}
        raise PolicyLoosened(
            _("%(tenant)s does not allow %(what)s; %(child)s below it cannot either.") % shown,
            {"tenant": str(above.origins[name]), "not_allowed": listed(map(str, more))}, name)  # fmt: skip
