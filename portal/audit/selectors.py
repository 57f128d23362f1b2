"""Looking into the audit trail. What the reader may see at all is decided before, by whoever hands the rows in."""

import datetime as dt
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from portal.audit.models import AuditEntry


@dataclass(frozen=True)
class Wanted:
    """A filter; what is empty or None filters nothing. ``group`` is the part of an action before its dot.

    ``who`` is part of a name or an e-mail address; ``tenant_path`` takes in everything below that tenant.
    """

    since: dt.datetime | None = None
    until: dt.datetime | None = None
    actor_id: int | None = None
    who: str = ""
    group: str = ""
    action: str = ""
    tenant_path: str = ""
    subject: str = ""
    via: str = ""


def entries_matching(rows: QuerySet[AuditEntry], wanted: Wanted) -> QuerySet[AuditEntry]:
    """Newest first, each with its actor, tenant and seal."""
    filters = {
        "at__gte": wanted.since,
        "at__lt": wanted.until,
        "actor_id": wanted.actor_id,
        "action__startswith": wanted.group and f"{wanted.group}.",
        "action": wanted.action,
        "tenant__path__startswith": wanted.tenant_path,
        "subject__icontains": wanted.subject,
        "via": wanted.via,
    }
    found = rows.filter(**{name: value for name, value in filters.items() if value not in ("", None)})
    if wanted.who:
        found = found.filter(Q(actor__name__icontains=wanted.who) | Q(actor__email__icontains=wanted.who))
    return found.select_related("actor", "tenant", "seal").order_by("-pk")


def page_before(rows: QuerySet[AuditEntry], before: int | None, most: int) -> tuple[list[AuditEntry], bool]:
    """``most`` rows that are older than this id, and whether there are older ones still."""
    older = rows if before is None else rows.filter(pk__lt=before)
    found = list(older[: most + 1])
    return found[:most], len(found) > most
