"""Writes what the made-up leases left behind: the ledger and the measured use."""

import datetime as dt
import io
import uuid
from collections.abc import Iterator, Mapping, Sequence

from django.db import connection

from agents.drivers.simulator.models import load_models
from agents.protocol import event_id
from portal.demo.past import BUCKET_SECONDS, PastUse, buckets_of, utilization_at
from portal.demo.year_copy import copy_rows
from portal.demo.year_plan import Use
from portal.inventory.models import Gpu
from portal.ledger.models import Kind, LedgerEntry
from portal.reservations.models import Lease

SOURCE = "seed_year"
MEASURED_DAYS = 42
COLUMNS = "lease_id, at, seconds, utilization, memory_used_mib, measured_seconds, busy_ms"


def write_ledger(leases: Sequence[tuple[Lease, Use]], profile_names: Mapping[int, str]) -> int:
    """``opened`` and ``closed`` of every lease that ran; ``closed`` only where it is over. Returns how many."""
    rows = [
        LedgerEntry(
            event_id=uuid.UUID(event_id(lease.pk, kind)), kind=kind, lease_id=lease.pk, at=at, source=SOURCE,
            reservation_id=lease.reservation_id, tenant_id=use.asker.tenant_id, user_id=use.asker.user_id,
            pool_id=use.pool_id, profile_name=profile_names[use.shape.profile_id], weight=use.shape.weight,
            slices=use.shape.size, recorded_at=at,
        )
        for lease, use in leases
        for kind, at in ((Kind.OPENED, use.opened), (Kind.CLOSED, use.closed))
        if at is not None
    ]  # fmt: skip
    rows.sort(key=lambda row: row.at)
    copy_rows(rows)
    return len(rows)


def write_use(leases: Sequence[tuple[Lease, Use]], gpus: Mapping[int, Gpu], now: dt.datetime) -> int:
    """Five-minute means of the last weeks, by COPY; what a device cannot measure is None. Returns how many."""
    text = io.StringIO()
    gpm = {model.product for model in load_models().values() if model.gpm}
    since, count = now - dt.timedelta(days=MEASURED_DAYS), 0
    for lease, use in leases:
        if use.opened and (use.closed or now) > since:
            gpu = gpus[lease.gpu_id]
            measurable = not gpu.mig_enabled or gpu.model in gpm
            for line in _lines(lease, use, gpu, measurable, now):
                text.write(line)
                count += 1
    text.seek(0)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY live_usebucket ({COLUMNS}) FROM STDIN", text)
    return count


def _lines(lease: Lease, use: Use, gpu: Gpu, measurable: bool, now: dt.datetime) -> Iterator[str]:
    assert use.opened is not None
    past = PastUse(
        lease.gpu_id, use.shape.profile_id, lease.span.lower, use.shape.size, "", use.opened, use.end,
        use.closed or now, "", use.busy,
    )  # fmt: skip
    memory = int(gpu.memory_mib * use.shape.size / gpu.memory_slices * (0.2 + 0.6 * use.busy))
    for at, held_seconds in buckets_of(past):
        percent = utilization_at(past, at) if measurable else None
        shown, measured = (r"\N", 0) if percent is None else (percent, held_seconds)
        busy_ms = int((percent or 0.0) * held_seconds * 10)
        yield f"{lease.pk}\t{at.isoformat()}\t{BUCKET_SECONDS}\t{shown}\t{memory}\t{measured}\t{busy_ms}\n"
