"""The last changes of a tenant's limits and people, in words."""

import datetime as dt
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from portal.audit.models import AuditEntry
from portal.quotas.models import Period
from portal.quotas.policies import FIELDS
from portal.quotas.words import moment
from portal.reports.tenant_policy import LABELS as POLICY_LABELS
from portal.reports.tenant_policy import pool_names_in, value_words
from portal.reservations.templatetags.berth_format import slice_h
from portal.tenants.models import Role

CHANGES_SHOWN = 8
LABELS = {"role": dict(Role.choices), "period": dict(Period.choices)}
NAMES = {
    "guaranteed": gettext_lazy("guaranteed"), "limit": gettext_lazy("limit"), "slice_seconds": gettext_lazy("budget"),
    "period": gettext_lazy("period"), "role": gettext_lazy("role"), "name": gettext_lazy("name"),
    "valid_from": gettext_lazy("valid from"), "valid_until": gettext_lazy("valid until"),
    **POLICY_LABELS,
}  # fmt: skip
ACTIONS = {
    "tenant.created": gettext_lazy("tenant added"), "tenant.renamed": gettext_lazy("renamed"),
    "tenant.closed": gettext_lazy("tenant closed"), "member.invited": gettext_lazy("invited"),
    "member.joined": gettext_lazy("joined"), "member.role_set": gettext_lazy("role set"),
    "member.removed": gettext_lazy("removed"), "member.invitation_withdrawn": gettext_lazy("invitation withdrawn"),
    "quota.set": gettext_lazy("quota set"), "budget.set": gettext_lazy("budget set"),
    "quota.removed": gettext_lazy("quota taken away"), "policy.set": gettext_lazy("policy set"),
}  # fmt: skip


def last_changes(tenant_id: int) -> list[tuple[AuditEntry, str]]:
    """Newest first, each with what it changed; bookings are no changes of a tenant."""
    rows = AuditEntry.objects.filter(tenant_id=tenant_id, action__in=ACTIONS).select_related("actor")
    shown = list(rows[:CHANGES_SHOWN])
    pools = pool_names_in(values for entry in shown for values in (entry.before, entry.after))
    return [(entry, change_words(entry, pools)) for entry in shown]


def change_words(entry: AuditEntry, pools: dict[int, str]) -> str:
    """limit 12 → 16; or the action where it says no more than that."""
    parts = []
    for key, name in NAMES.items():
        before, after = entry.before.get(key), entry.after.get(key)
        if before == after:
            continue
        old, new = _shown(key, before, pools), _shown(key, after, pools)
        parts.append(
            _("%(what)s %(before)s → %(after)s") % {"what": name, "before": old, "after": new}
            if before is not None
            else _("%(what)s %(after)s") % {"what": name, "after": new}
        )
    return pgettext("between the parts of a list", ", ").join(parts) or str(ACTIONS[entry.action])


def _shown(key: str, value: Any, pools: dict[int, str]) -> str:
    if value is None:
        return "–"
    if key in FIELDS:
        return value_words(key, value, pools)
    if key.startswith("valid_"):
        return moment(dt.datetime.fromisoformat(value))
    return slice_h(int(value)) if key == "slice_seconds" else str(LABELS.get(key, {}).get(str(value), value))
