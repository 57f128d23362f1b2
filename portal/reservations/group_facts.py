"""What the agents of a group are told of it. A group is several whole GPUs that run as one, all ranks or none."""

from collections import defaultdict
from collections.abc import Iterable

from django.utils.crypto import salted_hmac

from agents.group_format import Group, GroupLease, GroupNode
from portal.reservations.models import BOUND, MOVED, RESTARTED, Lease, Reservation

_SALT = "portal.reservations.group_facts"
# Pairs of ports below those that Linux hands out by itself; a firewall between nodes lets 29500 to 31499 pass.
_PORT_FIRST, _PORT_PAIRS = 29500, 1000
_STEP = 331  # another run's ports lie far from those that were taken


def is_group(reservation: Reservation) -> bool:
    """Slices of GPUs with MIG on cannot reach each other: several of those stay as many workloads, as do whole
    GPUs of which somebody said that they do not work together."""
    profile = reservation.profile
    whole = profile.whole and profile.nvml_profile_id is None
    return reservation.ranks > 1 and whole and reservation.together is not False


class Groups:
    """The groups of which these leases are ranks. One query, and none where there is no group."""

    def __init__(self, leases: Iterable[Lease]) -> None:
        ids = {lease.reservation_id for lease in leases if is_group(lease.reservation)}
        self._ranks: dict[int, dict[int, Lease]] = defaultdict(dict)
        rows = Lease.objects.filter(reservation__in=ids).exclude(end_reason__in=[MOVED, RESTARTED])
        for lease in rows.select_related("gpu__node").order_by("rank", "pk") if ids else ():
            self._ranks[lease.reservation_id][lease.rank] = lease

    def of(self, lease: Lease) -> Group | None:
        """As the node of this lease is to see it."""
        if not is_group(lease.reservation):
            return None
        by_node: dict[int, list[Lease]] = defaultdict(list)
        for other in self._ranks[lease.reservation_id].values():
            by_node[other.gpu.node_id].append(other)
        nodes = tuple(
            GroupNode(node.name, node.cluster_address, node.driver_version, len(held))
            for held in by_node.values() for node in [held[0].gpu.node])
        here = by_node[lease.gpu.node_id]
        epoch = lease.reservation.workload.restarts
        port = _port_of(lease.reservation_id, epoch)
        return Group(
            nodes=nodes, node_rank=list(by_node).index(lease.gpu.node_id),
            here=tuple(GroupLease(each.pk, each.gpu.uuid) for each in here), master_port=port, watch_port=port + 1,
            secret=salted_hmac(_SALT, f"{lease.reservation_id}/{epoch}", algorithm="sha256").hexdigest(), epoch=epoch)

    def may_start(self, lease: Lease) -> bool:
        """A rank is handed out only with all others: one that has no place yet would leave them waiting."""
        if not is_group(lease.reservation):
            return True
        ranks = self._ranks[lease.reservation_id]
        return len(ranks) == lease.reservation.ranks and all(other.state in BOUND for other in ranks.values())


def nodes_beside(node_id: int) -> set[int]:
    """Nodes that were told of this one, as a place of other ranks."""
    here = Lease.objects.filter(gpu__node=node_id, state__in=BOUND, frozen_at__isnull=False, reservation__ranks__gt=1)
    beside = Lease.objects.filter(reservation__in=here.values("reservation"), state__in=BOUND)
    return set(beside.values_list("gpu__node_id", flat=True))


def _port_of(reservation_id: int, epoch: int) -> int:
    """The lower of two neighbours, the same whoever asks; another after each restart, in case it was taken."""
    return _PORT_FIRST + 2 * ((reservation_id + epoch * _STEP) % _PORT_PAIRS)
