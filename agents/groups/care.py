"""Ranks that run: what becomes of them here when their group is at its end elsewhere, and what the others are told."""

from collections.abc import Mapping

from agents.containers.contract import Running
from agents.freeing import Freer
from agents.group_reasons import PEER_FAILED, PEER_LOST, PEER_WITHDRAWN
from agents.groups.sharing import has_own_workload, over_nodes
from agents.groups.trouble import Trouble
from agents.groups.watch import Groups
from agents.journal import Progress
from agents.leases import EXITED, WINDOW_OVER, WITHDRAWN
from agents.present import Present
from agents.schedule import Phase


class GroupCare:
    def __init__(self, groups: Groups, freer: Freer) -> None:
        self._groups = groups
        self._freer = freer

    def end_lost(self, progress: Progress, known: Mapping[int, Progress], present: Present, now: float) -> None:
        """End a rank whose group is at its end. It needs no portal for that: its own agent has heard or missed it."""
        group = progress.lease.group
        if group is None or progress.phase is not Phase.ACTIVE:
            return
        trouble = None
        if not has_own_workload(progress.lease):
            trouble = _trouble_of(known.get(group.first_lease_id))
        elif over_nodes(progress.lease):
            trouble = self._groups.session(group, running=True).trouble
        if trouble is not None:
            limit = self._groups.limits.grace_seconds
            self._freer.announce_end(progress, trouble.reason, present, now, trouble.about, most_grace=limit)

    def tell(self, progress: Progress) -> None:
        """Once the workload is on its way down or has ended here, the other nodes hear why."""
        group = progress.lease.group
        if group is None or progress.phase not in (Phase.STOPPING, Phase.ENDED) or not has_own_workload(progress.lease):
            return
        self._groups.leave(group, _why(progress, group.own.name))


def exit_code_of(progress: Progress, running: Running | None, known: Mapping[int, Progress]) -> int | None:
    """With what the workload ended; where leases share it, the one it belongs to may have removed it by now."""
    group = progress.lease.group
    if running is None and group is not None and group.first_lease_id in known:
        return known[group.first_lease_id].exit_code
    return running.exit_code if running is not None else None


def _trouble_of(first: Progress | None) -> Trouble | None:
    """Of the lease that the workload belongs to; one that exited is found by everyone who shares the workload."""
    if first is None or first.phase not in (Phase.STOPPING, Phase.ENDED) or first.reason == EXITED:
        return None
    return Trouble(first.reason, first.detail)


def _why(progress: Progress, node: str) -> Trouble | None:
    """None: it ended as it should, which is no reason for the others to end."""
    if progress.reason == WINDOW_OVER:
        return None
    if progress.reason == WITHDRAWN:
        return Trouble(PEER_WITHDRAWN, node)
    if progress.reason == EXITED:
        return Trouble(PEER_FAILED, f"{node} {progress.exit_code}") if progress.exit_code else None
    if progress.reason in (PEER_LOST, PEER_FAILED, PEER_WITHDRAWN):
        return Trouble(progress.reason, progress.detail)
    return Trouble(PEER_FAILED, f"{node} {progress.reason}")
