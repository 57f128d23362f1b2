"""The audit trail as people read it: who may see which entries, and each in words."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.functional import Promise

from portal.accounts.models import User
from portal.audit.actions import ACTIONS
from portal.audit.models import AuditEntry
from portal.reports.tenant_policy import pool_names_in
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import is_platform_admin, tenants_of

LONGEST_VALUE = 400
NAMED = re.compile(r"(user|tenant) (\d{1,18})")


@dataclass(frozen=True)
class Told:
    """One entry with ``words`` for its action, its subject by name, and what changed: key, before, after."""

    entry: AuditEntry
    words: str | Promise
    subject: str
    changes: list[tuple[str, str, str]]


def entries_of(reader: User) -> QuerySet[AuditEntry] | None:
    """All for a platform admin; for a lead or admin what happened in their tenants; None for who leads nothing."""
    if is_platform_admin(reader):
        return AuditEntry.objects.all()
    led = tenants_of(reader, Role.LEAD)
    return AuditEntry.objects.filter(tenant__in=led) if led.exists() else None


def told(entries: list[AuditEntry]) -> list[Told]:
    """Three queries for the names, whatever the number of entries."""
    named = [found for entry in entries if (found := NAMED.fullmatch(entry.subject))]
    names: dict[str, dict[int, Any]] = {
        "user": User.objects.in_bulk({int(found[2]) for found in named if found[1] == "user"}),
        "tenant": Tenant.objects.in_bulk({int(found[2]) for found in named if found[1] == "tenant"}),
    }
    pools = pool_names_in(values for entry in entries for values in (entry.before, entry.after))
    return [
        Told(entry, ACTIONS.get(entry.action, ""), _subject(entry, names), changes_of(entry, pools))
        for entry in entries
    ]


def changes_of(entry: AuditEntry, pools: Mapping[int, str]) -> list[tuple[str, str, str]]:
    keys = [*entry.before, *(key for key in entry.after if key not in entry.before)]
    return [(key, _text(entry.before, key, pools), _text(entry.after, key, pools)) for key in keys]


def _subject(entry: AuditEntry, names: dict[str, dict[int, Any]]) -> str:
    found = NAMED.fullmatch(entry.subject)
    row = names[found[1]].get(int(found[2])) if found else None
    return str(row) if row else entry.subject


def _text(values: dict, key: str, pools: Mapping[int, str]) -> str:
    if key not in values:
        return ""
    value = values[key]
    if key == "pool_ids" and value:
        value = [pools.get(pk, f"#{pk}") for pk in value]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
