"""What is due for a lease now, by the clock alone: no driver, no engine, no portal."""

from enum import StrEnum

from agents.protocol import DesiredLease

ACTIVE_POLL_SECONDS = 5.0
STOPPING_POLL_SECONDS = 0.2
_GRACE_SHARE = 0.25


class Phase(StrEnum):
    """Where a lease stands on this node. ``ENDED`` is kept until the portal no longer asks for the lease."""

    STARTING = "starting"
    ACTIVE = "active"
    STOPPING = "stopping"
    ENDED = "ended"


class Step(StrEnum):
    """What to do with a lease in this pass."""

    WAIT = "wait"
    START = "start"
    MISS = "miss"
    WITHDRAW = "withdraw"
    EXPIRE = "expire"
    EXITED = "exited"
    KILL = "kill"
    FREE = "free"


def grace_of(lease: DesiredLease) -> float:
    """Seconds between TERM and KILL; a window shorter than four graces gives a quarter of itself."""
    return min(float(lease.workload.grace_seconds), _GRACE_SHARE * (lease.ends_at - lease.starts_at))


def term_at(lease: DesiredLease) -> float:
    """When a workload gets TERM so that its grace is over as the window ends."""
    return lease.ends_at - grace_of(lease)


def kill_at(lease: DesiredLease, stopped_at: float) -> float:
    """When a workload that got TERM at ``stopped_at`` is killed: after its grace, never later than its window."""
    return max(stopped_at, min(stopped_at + lease.workload.grace_seconds, lease.ends_at))


def first_step(lease: DesiredLease, now: float) -> Step:
    """For a lease this node has not touched. Never before its start, never in the last grace of its window."""
    if now < lease.starts_at:
        return Step.WAIT
    return Step.START if now < term_at(lease) else Step.MISS


def next_step(
    lease: DesiredLease, phase: Phase, *, wanted: bool, alive: bool, now: float, due_at: float, retry_at: float = 0.0
) -> Step:
    """For a lease this node has touched. ``due_at`` is the next try of a start, or the time to kill once it stops;
    ``retry_at`` the next try of what hinders it from being freed."""
    if phase is Phase.ENDED:
        return Step.WAIT
    if phase is Phase.STOPPING:
        return _stopping_step(alive, now, due_at, retry_at)
    if not wanted:
        return Step.WITHDRAW
    if now >= term_at(lease):
        return Step.EXPIRE
    if phase is Phase.ACTIVE:
        return Step.WAIT if alive else Step.EXITED
    return Step.START if now >= due_at else Step.WAIT


def _stopping_step(alive: bool, now: float, due_at: float, retry_at: float) -> Step:
    if now < retry_at or (alive and now < due_at):
        return Step.WAIT
    return Step.KILL if alive else Step.FREE


def due_at_first(lease: DesiredLease, now: float) -> float:
    """When an untouched lease next needs a pass."""
    return lease.starts_at if now < lease.starts_at else now


def due_at_next(lease: DesiredLease, phase: Phase, now: float, due_at: float, retry_at: float) -> float:
    """When a touched lease next needs a pass; infinity when only news can change it."""
    if phase is Phase.ACTIVE:
        return term_at(lease)
    if phase is Phase.STARTING:
        return min(max(due_at, now), term_at(lease))
    if phase is Phase.STOPPING:
        return max(retry_at, now + STOPPING_POLL_SECONDS)
    return float("inf")


def overlaps(one: DesiredLease, other: DesiredLease) -> bool:
    """Whether two leases would hold a common slice."""
    return (one.gpu_uuid == other.gpu_uuid and one.start < other.start + other.size
            and other.start < one.start + one.size)
