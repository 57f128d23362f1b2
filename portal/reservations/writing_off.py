"""An operator's word that a silent machine is gone: what it held comes to rest, and it can never come back."""

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.enrolment import retire_node
from portal.inventory.errors import InventoryRefused
from portal.inventory.models import Node
from portal.reservations.booking import lock_pool
from portal.reservations.ending import close_reservation
from portal.reservations.lease_events import end_lease
from portal.reservations.models import LIVE, Lease, LeaseState


@transaction.atomic
def write_off_node(*, actor: User, node: Node) -> Node:
    """End every lease of a silent node at its last sign of life, and retire it: its slices are never given out again.

    Refused while the node answers: then draining it loses nobody's work. Locks the pools, the leases, the node.
    """
    held = Lease.objects.filter(gpu__node=node, state__in=LIVE)
    for pool_id in sorted(set(held.values_list("reservation__pool_id", flat=True))):
        lock_pool(pool_id)
    node = Node.objects.get(pk=node.pk)
    if node.enrolled_at is not None and node.silent_since is None:
        raise InventoryRefused(_("%(node)s answers. Only a silent node can be written off.") % {"node": node})
    leases = list(
        held.select_for_update(no_key=True, of=("self",)).select_related("reservation__profile").order_by("pk")
    )
    last_sign = node.last_seen_at or timezone.now()
    for lease in leases:
        end_lease(lease, LeaseState.ENDED, "node_lost", last_sign)
    for reservation in {lease.reservation_id: lease.reservation for lease in leases}.values():
        close_reservation(reservation.pk)
        events.tell_tenant_on_commit(reservation.tenant_id, "reservation.changed", reservation=reservation.pk)
    record_change(actor=actor, action="node.written_off", subject=node.name, after={"leases": len(leases)})
    return retire_node(actor=actor, node=node)
