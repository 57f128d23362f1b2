"""What a browser gets once a second: the values it may see, and the keys whose source is late."""

from collections.abc import Mapping

import msgspec
from django.conf import settings

from agents.protocol import GpuSample, LeaseSample
from portal.live.store import Snapshot
from portal.live.watches import Sight

Value = float | int | None


def frame_of(sight: Sight, snapshots: Mapping[int, Snapshot], now: float) -> str:
    """One frame as JSON. A late source is named and its values are not repeated; None is *not measurable*."""
    values: dict[str, Value] = {}
    late: list[str] = []
    fresh = {node_id: snapshot for node_id, snapshot in snapshots.items() if not _is_late(snapshot, now)}
    for lease_id, node_id in sight.leases:
        if node_id not in fresh:
            late.append(f"l{lease_id}")
        elif sample := fresh[node_id].leases.get(lease_id):
            values |= _lease_values(lease_id, sample)
    for gpu_id, node_id in sight.gpus:
        if node_id not in fresh:
            late.append(f"g{gpu_id}")
        elif board := fresh[node_id].gpus.get(gpu_id):
            values |= _gpu_values(gpu_id, board)
    values |= {f"n{node_id}:age": _age(snapshots.get(node_id), now) for node_id in sight.nodes}
    late.extend(f"n{node_id}" for node_id in sight.nodes if node_id not in fresh)
    return msgspec.json.encode({"t": round(now, 3), "v": values, "late": late}).decode()


def _age(snapshot: Snapshot | None, now: float) -> float | None:
    return None if snapshot is None else round(max(0.0, now - snapshot.at), 1)


def _is_late(snapshot: Snapshot, now: float) -> bool:
    return now - snapshot.at > settings.SAMPLE_STALE_SECONDS


def _lease_values(lease_id: int, sample: LeaseSample) -> dict[str, Value]:
    key = f"l{lease_id}"
    return {
        f"{key}:util": _short(sample.utilization),
        f"{key}:tensor": _short(sample.tensor),
        f"{key}:bw": _short(sample.memory_bandwidth),
        f"{key}:mem": sample.memory_used_mib,
        f"{key}:memtotal": sample.memory_total_mib,
        f"{key}:power": _short(sample.power_watts),
        f"{key}:cpu": _short(sample.cpu_percent),
        f"{key}:procs": sample.processes,
    }


def _gpu_values(gpu_id: int, sample: GpuSample) -> dict[str, Value]:
    key = f"g{gpu_id}"
    return {
        f"{key}:util": _short(sample.utilization),
        f"{key}:mem": sample.memory_used_mib,
        f"{key}:power": _short(sample.power_watts),
        f"{key}:temp": _short(sample.temperature_celsius),
    }


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
