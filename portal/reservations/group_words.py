"""What keeps the ranks of a group apart, as people read it. Agents tell the reason and what it is about."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, override

from agents import group_reasons
from portal.reservations.models import Lease
from portal.workloads.models import RankLoss, Workload

_SENTENCES: dict[str, Promise] = {
    group_reasons.PORT_TAKEN: _("The port that the ranks meet on is taken by another program: %(about)s."),
    group_reasons.NO_ADDRESS: _("The address at which the other ranks look for this node is not its own: %(about)s."),
    group_reasons.NO_INTERFACE: _("The network interface for ranks is missing: %(about)s."),
    group_reasons.NO_NETWORK: _("Containers on %(about)s have no network that reaches other nodes."),
    group_reasons.UNRESOLVED: _("The address of a node cannot be resolved: %(about)s."),
    group_reasons.UNREACHABLE: _("Not all ranks could reach each other before the start: %(about)s."),
    group_reasons.DRIVER_DIFFERS: _("The nodes have different GPU drivers: %(about)s."),
    group_reasons.PEER_LOST: _("A node of the group was no longer heard, so all ranks were ended: %(about)s."),
    group_reasons.PEER_FAILED: _("A rank failed, so all ranks were ended: %(about)s."),
    group_reasons.PEER_WITHDRAWN: _("A rank was taken back, so all ranks were ended: %(about)s."),
}


def what_a_loss_does(workload: Workload) -> str:
    """One sentence on what becomes of the group when a rank is lost."""
    if workload.rank_loss != RankLoss.RESTART:
        return str(_("When one rank is lost, all end."))
    sentence = ngettext(
        "When one rank is lost, all start again, at most once; so far %(so_far)d.",
        "When one rank is lost, all start again, at most %(most)d times; so far %(so_far)d.",
        workload.restarts_most,
    )
    return sentence % {"most": workload.restarts_most, "so_far": workload.restarts}


def is_of_group(lease: Lease) -> bool:
    """Whether it ended, or could not start, because of what binds it to other ranks."""
    return lease.end_reason in _SENTENCES


def detail_of(lease: Lease) -> str:
    """What is to be said of how the lease ended, in the reader's language."""
    sentence = _SENTENCES.get(lease.end_reason)
    return str(sentence) % {"about": lease.detail} if sentence else lease.detail


def stored_detail(lease: Lease) -> str:
    """The same in English, for a row that all read."""
    with override("en"):
        return detail_of(lease)[:500]
