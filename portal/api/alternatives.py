"""How an alternative looks in an answer: enough to ask for it in the next request."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.reservations.availability import Alternative


def alternatives_shown(alternatives: Iterable["Alternative"]) -> list[dict[str, Any]]:
    return [
        {
            "kind": one.kind,
            "pool": one.pool.pk,
            "profile": one.profile.name,
            "ranks": one.ranks,
            "start": one.during.lower.isoformat(),
            "end": one.during.upper.isoformat(),
            "price_slice_seconds": one.price_slice_seconds,
        }
        for one in alternatives
    ]
