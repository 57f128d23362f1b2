"""The running or next maintenance of a node or a pool, for pages of floors below."""

from django import template
from django.utils import timezone

from portal.inventory.models import Node, Pool
from portal.reservations.maintenance_listing import next_for, state_of

register = template.Library()


@register.inclusion_tag("nodes/maintenance_next.html")
def next_maintenance(*, node: Node | None = None, pool: Pool | None = None) -> dict:
    row = next_for(node=node, pool=pool)
    state, word = state_of(row, timezone.now()) if row else ("", "")
    return {"row": row, "state": state, "word": word, "node": node, "pool": pool}
