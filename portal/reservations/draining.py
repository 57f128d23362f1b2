"""A node by hand: cordon, drain, put back. Draining moves what has not started and lets the rest run out.

Platform admins only; each raises ``InventoryRefused`` or :class:`ReservationRefused` and changes nothing.
"""

import datetime as dt

from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Node, NodeState
from portal.inventory.services import set_node_state
from portal.reservations.errors import WindowRefused
from portal.reservations.maintenance import check_admin
from portal.reservations.maintenance_closing import closing_of_drain
from portal.reservations.maintenance_effects import Affected, affected_by, carry_out
from portal.reservations.maintenance_locks import pools_of, under_locks
from portal.reservations.maintenance_nodes import nodes_of, running_maintenance
from portal.reservations.models import LIVE, Lease, Maintenance

EMPTIES = (NodeState.DRAINING, NodeState.MAINTENANCE)
LONGEST_DRAIN = dt.timedelta(days=366)


def preview_service(
    node: Node, state: NodeState, until: dt.datetime | None = None, now: dt.datetime | None = None
) -> Affected:
    """Who is affected when the node is put into this state now; nothing is locked or written."""
    now = now or timezone.now()
    if state not in EMPTIES:
        return Affected()
    return affected_by(closing_of_drain(node, _in_time(until, now), now), now)


def set_service(
    *, actor: User, node: Node, state: NodeState, until: dt.datetime | None = None
) -> tuple[Node, Affected]:
    """Cordoned takes nothing new. Draining (or maintenance by hand) is emptied too: what has not started is moved,
    what runs ends by itself, or at ``until``, but never within the notice. Ready puts it back.

    Locks the pools of the node by id, the leases there, their reservations, the node.
    """
    check_admin(actor)
    if until is not None:
        _check_until(until, state)
    return under_locks(pools_of(Q(node=node)), lambda: _set(actor, node, state, until))


def _set(actor: User, node: Node, state: NodeState, until: dt.datetime | None) -> tuple[Node, Affected]:
    now = timezone.now()
    if state == NodeState.READY:
        _check_no_maintenance(node, now)
    until = _in_time(until, now)
    affected = Affected()
    if state in EMPTIES and node.state != NodeState.RETIRED:
        closing = closing_of_drain(node, until, now)
        affected = affected_by(closing, now, lock=True)
        carry_out(affected, closing, now, actor)
    return set_node_state(actor=actor, node=node, state=state, drain_until=until), affected


def _check_until(until: dt.datetime, state: NodeState) -> None:
    now = timezone.now()
    if state != NodeState.DRAINING:
        raise WindowRefused(_("Only a drain has a deadline."), field="until")
    if until <= now or until > now + LONGEST_DRAIN:
        raise WindowRefused(_("The deadline is ahead, and within a year."), field="until")


def _in_time(until: dt.datetime | None, now: dt.datetime) -> dt.datetime | None:
    """Who runs now is given notice."""
    return max(until, now + settings.DISPLACE_NOTICE) if until else None


def _check_no_maintenance(node: Node, now: dt.datetime) -> None:
    row = maintenance_on(node, now)
    if row is not None:
        told = {"node": node, "until": f"{timezone.localtime(row.during.upper):%Y-%m-%d %H:%M}"}
        raise InventoryRefused(_("%(node)s is in planned maintenance until %(until)s. End that first.") % told)


def maintenance_on(node: Node, now: dt.datetime) -> Maintenance | None:
    """The running maintenance that keeps the node out as a whole, the one that lasts longest."""
    rows = [row for row in running_maintenance(now) if nodes_of(row).filter(pk=node.pk).exists()]
    return max(rows, key=lambda row: row.during.upper, default=None)


def is_empty(node: Node) -> bool:
    """Nothing is bound to it or still on it: a node that drains is drained."""
    return not Lease.objects.filter(gpu__node=node, state__in=LIVE).exists()
