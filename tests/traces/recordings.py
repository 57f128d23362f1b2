"""Made leases as the advisor gets them."""

from scheduler.advisor.recording import Recording
from scheduler.advisor.trace_files import lease_of
from tests.traces.leases import Lease


def recording_of(lease: Lease) -> Recording:
    return Recording(lease_of(lease.truth), tuple(lease.ranks))
