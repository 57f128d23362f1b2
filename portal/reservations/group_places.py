"""How near to each other the ranks of a group sit, said in one sentence."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from portal.reservations.models import Lease
from scheduler.placement.topology import Level, Topology


def nearness_of(leases: Sequence[Lease]) -> str:
    """Of what holds all ranks. ``leases`` have their GPUs and nodes."""
    nodes = {lease.gpu.node_id: lease.gpu.node for lease in leases}
    level = Topology({node.pk: node.rack for node in nodes.values()}).level(nodes)
    first = next(iter(nodes.values()))
    if level == Level.NODE:
        return _("All ranks are on one node, %(node)s.") % {"node": first.name}
    if level == Level.RACK:
        return _("The ranks are on %(nodes)d nodes of one rack, %(rack)s.") % {"nodes": len(nodes), "rack": first.rack}
    return _("The ranks are on %(nodes)d nodes that are not known to share a rack.") % {"nodes": len(nodes)}
