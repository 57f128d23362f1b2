"""How long before a start or an end a person may be reminded, and of what they were already."""

from collections.abc import Iterable

from portal.notices.models import Kind, Notice

LEADS_SECONDS = (300, 900, 1800, 3600, 7200, 43200, 86400, 172800, 604800)


def already_reminded(kind: Kind, keys: Iterable[str]) -> set[str]:
    """Those of these ``once`` keys that somebody was told, which for a reminder is its owner."""
    found = Notice.objects.filter(kind=kind, once__in=list(keys)).values_list("once", flat=True)
    return {once for once in found if once}
