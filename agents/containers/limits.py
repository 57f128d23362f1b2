"""What a process may take from its host: by resource limits and CPU affinity, where there is no engine to do it."""

import math
import os
import resource

_FILES = 65536
_PROCESSES = 4096


def apply_limits(lease_id: int, cpus: float | None, memory_mib: int | None) -> None:
    """Bind the calling process and all it starts. Memory is the writable data of one process, since an address space
    limit breaks CUDA, which reserves far more than it uses; CPUs are whole cores, chosen by the lease's number."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _FILES)
    _lower(resource.RLIMIT_NPROC, _PROCESSES)
    if memory_mib is not None:
        _lower(resource.RLIMIT_DATA, memory_mib << 20)
    if cpus is not None:
        allowed = sorted(os.sched_getaffinity(0))
        first = lease_id % len(allowed)
        turned = allowed[first:] + allowed[:first]
        os.sched_setaffinity(0, turned[:max(1, math.ceil(cpus))])


def _lower(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))
