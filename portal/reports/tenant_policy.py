"""The policy of a tenant: what counts and where it comes from, and the form in which it is set."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.accounts.numbers import Amount, WholeNumber
from portal.inventory.models import Pool, Profile
from portal.quotas.models import Policy
from portal.quotas.policies import FIELDS, SETS, EffectivePolicy
from portal.quotas.words import length, listed
from portal.reservations.templatetags.berth_format import slice_h
from portal.tenants.models import Tenant

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MINUTE, HOUR, DAY = 60, 3600, 86400
LABELS: "dict[str, StrOrPromise]" = {
    "longest_window_seconds": gettext_lazy("Longest window"),
    "book_ahead_seconds": gettext_lazy("Book ahead"),
    "most_weight_each": gettext_lazy("Slices a person at once"),
    "pool_ids": gettext_lazy("Pools"),
    "profiles": gettext_lazy("Profiles"),
    "images": gettext_lazy("Images"),
    "approval_above_slice_seconds": gettext_lazy("Approval over"),
    "protected_seconds": gettext_lazy("Protected run time"),
}
# The field of the form for each that is typed in another unit, with that unit and as many digits as keep a second.
TYPED = {
    "longest_window_seconds": ("longest_window_hours", HOUR, 4),
    "book_ahead_seconds": ("book_ahead_days", DAY, 6),
    "approval_above_slice_seconds": ("approval_slice_hours", HOUR, 4),
    "protected_seconds": ("protected_minutes", MINUTE, 3),
}


@dataclass(frozen=True)
class PolicyRow:
    """``origin`` None: nobody set it. ``own``: set for the tenant itself."""

    label: "StrOrPromise"
    value: str
    origin: Tenant | None
    own: bool


def policy_rows(tenant: Tenant, policy: EffectivePolicy, pools: list[Pool]) -> list[PolicyRow]:
    """Every field in its fixed order, set or not."""
    rows = []
    for name in FIELDS:
        origin = policy.origins.get(name)
        rows.append(PolicyRow(LABELS[name], _said(name, getattr(policy, name), pools), origin, origin == tenant))
    return rows


def _said(name: str, value: Any, pools: list[Pool]) -> str:
    if value is None:
        if name in SETS:
            return _("all")
        told = {"approval_above_slice_seconds": _("never needed"), "most_weight_each": _("as quotas allow")}
        return told.get(name, _("as the pool allows"))
    return value_words(name, value, {pool.pk: pool.name for pool in pools})


def pool_names_in(changes: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """Of all pools, in one query, where any of these changed values names pools; they are kept by their numbers."""
    if not any(values.get("pool_ids") for values in changes):
        return {}
    return dict(Pool.objects.values_list("pk", "name"))


def value_words(name: str, value: Any, pool_names: dict[int, str]) -> str:
    """A value of a policy for people; pools that are no more are told by their number."""
    words: dict[str, Callable[[Any], str]] = {
        "approval_above_slice_seconds": slice_h,
        "most_weight_each": str,
        "pool_ids": lambda ids: listed(sorted(pool_names.get(pk, f"#{pk}") for pk in ids)) or _("none"),
        "profiles": lambda names: listed(sorted(names)) or _("none"),
        "images": lambda patterns: listed(patterns) or _("none"),
    }
    return words.get(name, length)(value)


class PolicyForm(forms.Form):
    """Empty fields, and lists without a choice, are inherited."""

    longest_window_hours = Amount(
        label=gettext_lazy("Longest window, hours"), digits=12, places=4, required=False)
    book_ahead_days = Amount(label=gettext_lazy("Book ahead, days"), digits=12, places=6, required=False)
    most_weight_each = WholeNumber(
        label=gettext_lazy("Most slices at once, each person"), most=10**9, required=False)
    approval_slice_hours = Amount(
        label=gettext_lazy("Approval over, slice-h"), digits=16, places=4, required=False)
    protected_minutes = Amount(
        label=gettext_lazy("Protected run time, minutes"), digits=12, places=3, required=False)
    pool_ids = forms.TypedMultipleChoiceField(label=gettext_lazy("Allowed pools"), coerce=int, required=False)
    profiles = forms.MultipleChoiceField(label=gettext_lazy("Allowed profiles"), required=False)
    images = forms.CharField(label=gettext_lazy("Allowed images, one a line"), max_length=30_000, required=False)

    def __init__(self, data=None, *, tenant: Tenant, above: EffectivePolicy | None, pools: list[Pool]):
        own = Policy.objects.filter(tenant=tenant).first() or Policy(tenant=tenant)
        super().__init__(data, initial=_initial(own))
        allowed = above.pool_ids if above else None
        shown = [pool for pool in pools if allowed is None or pool.pk in allowed or pool.pk in (own.pool_ids or ())]
        self.fields["pool_ids"].choices = [(pool.pk, pool.name) for pool in shown]  # type: ignore[attr-defined]
        offered = Profile.objects.filter(gpu_model__in={pool.gpu_model for pool in shown})
        mine, names = set(own.profiles or ()), set(offered.values_list("name", flat=True))
        names = mine | (names if above is None or above.profiles is None else names & above.profiles)
        self.fields["profiles"].choices = [(name, name) for name in sorted(names)]  # type: ignore[attr-defined]

    def policy_fields(self) -> dict[str, Any]:
        """As :func:`set_policy` takes them."""
        asked = self.cleaned_data
        found: dict[str, Any] = {
            "most_weight_each": asked["most_weight_each"],
            "pool_ids": asked["pool_ids"] or None,
            "profiles": asked["profiles"] or None,
            "images": asked["images"].split() or None,
        }
        for name, (field, unit, _digits) in TYPED.items():
            found[name] = None if asked[field] is None else round(asked[field] * unit)
        return found


def field_of(name: str) -> str | None:
    """Where the refusal of this part of a policy is shown."""
    return TYPED[name][0] if name in TYPED else name or None


def _initial(own: Policy) -> dict[str, Any]:
    initial: dict[str, Any] = {
        "most_weight_each": own.most_weight_each,
        "pool_ids": own.pool_ids or [],
        "profiles": own.profiles or [],
        "images": "\n".join(own.images or ()),
    }
    for name, (field, unit, digits) in TYPED.items():
        seconds = getattr(own, name)
        if seconds is not None:
            initial[field] = f"{Decimal(seconds) / unit:.{digits}f}".rstrip("0").rstrip(".")
    return initial
