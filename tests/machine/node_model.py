"""A node's agent as a model: it follows the desired document as the real one does, and loses and repeats messages."""

import datetime as dt
import random

from agents.protocol import DesiredLease, LeaseEvent, Report, event_id
from portal.reservations.agent_reports import apply_report
from portal.reservations.dispatch import desired_document


class NodeModel:
    """In the portal's time. ``hold`` is what runs here: lease id -> what was asked for when it began."""

    def __init__(self, node_id: int, chance: random.Random) -> None:
        self.node_id = node_id
        self.hold: dict[int, DesiredLease] = {}
        self._ended: set[int] = set()
        self._untold: list[LeaseEvent] = []
        self._chance = chance

    def step(self, now: dt.datetime) -> None:
        """One pass: end and free first, then start, then report; sometimes the report is lost or told twice."""
        desired = desired_document(self.node_id)
        wanted = {lease.lease_id: lease for lease in desired.leases}
        at = now.timestamp()
        for lease_id in list(self.hold):
            lease = self.hold[lease_id] = wanted.get(lease_id, self.hold[lease_id])
            if lease_id not in wanted or at >= lease.ends_at:
                self._end(lease, "withdrawn" if lease_id not in wanted else "window_over", at)
        for lease in sorted(wanted.values(), key=lambda each: (each.starts_at, each.lease_id)):
            if self._may_start(lease, at):
                self.hold[lease.lease_id] = lease
                self._tell(lease, "starting", at)
                self._tell(lease, "active", at)
        self._ended &= set(wanted)
        self._report(desired.generation, now)

    def _may_start(self, lease: DesiredLease, at: float) -> bool:
        if lease.lease_id in self.hold or lease.lease_id in self._ended or not lease.starts_at <= at < lease.ends_at:
            return False
        return not any(
            other.gpu_uuid == lease.gpu_uuid
            and other.start < lease.start + lease.size
            and lease.start < other.start + other.size
            for other in self.hold.values()
        )

    def _end(self, lease: DesiredLease, reason: str, at: float) -> None:
        del self.hold[lease.lease_id]
        self._ended.add(lease.lease_id)
        self._tell(lease, "stopping", at, reason)
        self._tell(lease, "freed", at, reason)

    def _tell(self, lease: DesiredLease, kind: str, at: float, reason: str = "") -> None:
        name = event_id(lease.lease_id, kind, lease.attempt)
        self._untold.append(LeaseEvent(id=name, lease_id=lease.lease_id, kind=kind, at=at, reason=reason))

    def _report(self, generation: int, now: dt.datetime) -> None:
        if self._chance.random() < 0.1:
            return
        report = Report(observed_generation=generation, present=(), events=tuple(self._untold), gpus=())
        for _ in range(self._chance.choice((1, 1, 2))):
            known = apply_report(self.node_id, report, now)
        self._untold = [event for event in self._untold if event.id not in known]
