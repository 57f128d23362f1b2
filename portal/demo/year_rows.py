"""Writes the made-up reservations with their workloads, leases, approvals and waits.

Every lease is written as planned first, so that the database itself judges that no two meet; then it comes to rest.
"""

import datetime as dt
import random
from collections.abc import Mapping, Sequence

from django.conf import settings
from django.db import connection
from psycopg2.extras import DateTimeTZRange, NumericRange

from portal.demo.year_copy import copy_rows
from portal.demo.year_plan import Use
from portal.reservations.models import Approval, Decision, Lease, LeaseState, Reservation, State, Wait
from portal.workloads.models import Workload

BATCH = 2000
HOLD = dt.timedelta(hours=48)
KINDS = ("training", "fine-tuning", "evaluation", "notebook", "inference", "pre-processing", "sweep", "rendering")
CREATED_BY_LEAD_SHARE = 0.04
THRESHOLD_SLICE_SECONDS = 200 * 3600

Rested = tuple[int, str, str, dt.datetime, dt.datetime | None, dt.datetime | None]


def write_reservations(
    uses: Sequence[Use], leads: Mapping[int, int], now: dt.datetime, borrowed: Sequence[bool], chance: random.Random
) -> list[Reservation]:
    """One row each, in the order of ``uses``; ``leads`` names a lead for each tenant, who decides and sometimes books
    for others."""
    workloads = [
        Workload(tenant_id=use.asker.tenant_id, name=f"{chance.choice(KINDS)} {number % 97 + 1}", command=["train"])
        for number, use in enumerate(uses)
    ]
    copy_rows(workloads)
    approvals = _write_approvals(uses, leads, now)
    rows = []
    for number, use in enumerate(uses):
        by_lead = chance.random() < CREATED_BY_LEAD_SHARE
        links = {
            "workload": workloads[number],
            "borrowed": borrowed[number],
            "approval": approvals.get(number),
            "created_by_id": leads[use.asker.tenant_id] if by_lead else use.asker.user_id,
        }
        rows.append(_reservation(use, now, **links))
    copy_rows(rows)
    return rows


def _reservation(use: Use, now: dt.datetime, **fields) -> Reservation:
    held_until = min(use.start, now + HOLD) if use.fate.state == State.REQUESTED else None
    return Reservation(
        tenant_id=use.asker.tenant_id, owner_id=use.asker.user_id, pool_id=use.pool_id,
        profile_id=use.shape.profile_id, ranks=use.ranks, weight=use.shape.weight,
        during=DateTimeTZRange(use.start, use.end), state=use.fate.state, end_reason=use.fate.end_reason or "",
        hold_expires_at=held_until, created_at=use.asked_at, running_at=use.opened, ended_at=_ended_at(use), **fields,
    )  # fmt: skip


def _ended_at(use: Use) -> dt.datetime | None:
    if not use.fate.is_over:
        return None
    if use.closed:
        return use.closed
    if use.fate.state == State.ENDED:  # it never ran: told after its start
        return use.start + min(settings.STARTING_DEADLINE, (use.end - use.start) / 2)
    return use.asked_at + (use.start - use.asked_at) / 2


def _write_approvals(uses: Sequence[Use], leads: Mapping[int, int], now: dt.datetime) -> dict[int, Approval]:
    """One for each that waits for a lead or was refused, by its number."""
    numbers = [number for number, use in enumerate(uses) if use.fate.state in (State.REQUESTED, State.REFUSED)]
    rows = Approval.objects.bulk_create(_approval(uses[number], leads, now) for number in numbers)
    return dict(zip(numbers, rows, strict=True))


def _approval(use: Use, leads: Mapping[int, int], now: dt.datetime) -> Approval:
    refused = use.fate.state == State.REFUSED
    price = use.weight * int((use.end - use.start).total_seconds())
    return Approval(
        tenant_id=use.asker.tenant_id, asked_by_id=use.asker.user_id, asked_at=use.asked_at,
        expires_at=min(use.start, now + HOLD), price_slice_seconds=price,
        threshold_slice_seconds=min(THRESHOLD_SLICE_SECONDS, price - 1),
        decision=Decision.REFUSED if refused else "", decided_at=_ended_at(use) if refused else None,
        decided_by_id=leads[use.asker.tenant_id] if refused else None,
        note="Please take a smaller slice for this." if refused else "",
    )  # fmt: skip


def write_waits(uses: Sequence[Use], rows: Sequence[Reservation], now: dt.datetime) -> None:
    """Some wait for exactly their window, the others for any of its length in the next four weeks."""
    Wait.objects.bulk_create(
        Wait(
            reservation=row, fixed=row.pk % 3 == 0, seconds=int((use.end - use.start).total_seconds()), not_before=now,
            give_up_at=use.end if row.pk % 3 == 0 else use.end + dt.timedelta(days=28), since=use.asked_at,
        )
        for use, row in zip(uses, rows, strict=True)
        if use.fate.state == State.QUEUED
    )  # fmt: skip


def write_leases(uses: Sequence[Use], rows: Sequence[Reservation], now: dt.datetime) -> list[Lease]:
    """A lease for each rank that has a place; in the end in the states that the fates say."""
    held = [(use, row) for use, row in zip(uses, rows, strict=True) if use.places]
    leases = [
        Lease(
            reservation=row, rank=rank, gpu_id=gpu_id, during=row.during, frozen_at=_frozen_at(use, now),
            span=NumericRange(first, first + use.shape.size), state=LeaseState.PLANNED,
        )
        for use, row in held
        for rank, (gpu_id, first) in enumerate(use.places)
    ]  # fmt: skip
    copy_rows(leases)
    uses_of = [use for use, _ in held for _ in use.places]
    _bring_to_rest([_rested(lease, use) for lease, use in zip(leases, uses_of, strict=True)])
    return leases


def _frozen_at(use: Use, now: dt.datetime) -> dt.datetime | None:
    """Not what waits for its lead, nor what was cancelled in time."""
    due = use.start - settings.FREEZE_HORIZON
    if use.fate.state in (State.REQUESTED, State.CANCELLED) or due > now:
        return None
    return max(due, use.asked_at)


def _rested(lease: Lease, use: Use) -> Rested:
    reason = use.fate.lease_reason
    return lease.pk, use.fate.lease_state, reason, use.start, use.opened, _ended_at(use)


def _bring_to_rest(rows: Sequence[Rested]) -> None:
    """One UPDATE from a table of what became of each."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE year_rest (id bigint, state text, reason text, start_at timestamptz,"
            " opened timestamptz, ended timestamptz) ON COMMIT DROP"
        )
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            values = ", ".join(["(%s, %s, %s, %s::timestamptz, %s::timestamptz, %s::timestamptz)"] * len(part))
            cursor.execute(f"INSERT INTO year_rest VALUES {values}", [value for row in part for value in row])
        cursor.execute(
            "UPDATE reservations_lease AS l SET state = y.state, end_reason = y.reason, active_at = y.opened,"
            " starting_at = CASE WHEN y.opened IS NOT NULL OR y.reason = 'start_failed' THEN y.start_at END,"
            " stopping_at = CASE WHEN y.opened IS NOT NULL THEN y.ended END, ended_at = y.ended,"
            " exit_code = CASE y.reason WHEN 'exit_failed' THEN 1 WHEN 'exited' THEN 0 END"
            " FROM year_rest AS y WHERE y.id = l.id"
        )
