"""What must be true after every step, whatever was done. Each check reads the rows as they are."""

import datetime as dt
from collections import Counter, defaultdict

from portal.ledger.models import LedgerEntry
from portal.quotas.models import Budget, Quota
from portal.quotas.tree import next_below
from portal.reservations.borrowing import own_share
from portal.reservations.models import COUNTED, LIVE, UNDER_WAY, Lease, LeaseState, Reservation, State
from portal.reservations.spending import budget_statuses

FINAL = [State.ENDED, State.REFUSED, State.CANCELLED]


def check_no_slice_is_shared() -> None:
    by_gpu = defaultdict(list)
    for lease in Lease.objects.filter(state__in=LIVE).order_by("during"):
        by_gpu[lease.gpu_id].append(lease)
    for leases in by_gpu.values():
        for number, one in enumerate(leases):
            for other in leases[number + 1 :]:
                apart_in_time = one.during.upper <= other.during.lower or other.during.upper <= one.during.lower
                apart_in_span = one.span.upper <= other.span.lower or other.span.upper <= one.span.lower
                assert apart_in_time or apart_in_span, f"{one} and {other} share a slice"


def check_no_quota_is_exceeded(cut: set[int]) -> None:
    """``cut`` are ids of quotas lowered below what was held: only what comes later is refused there.

    A rank that was moved counts once, although its former place is held until it is free.
    """
    leases = list(Lease.objects.filter(COUNTED).select_related("reservation__tenant"))
    quotas = list(Quota.objects.select_related("tenant", "pool"))
    for quota in quotas:
        mine = [one for one in leases if one.reservation.pool_id == quota.pool_id
                and one.reservation.tenant.path.startswith(quota.tenant.path)]  # fmt: skip
        if quota.pk not in cut:
            assert _peak(mine) <= quota.limit, f"{quota} is exceeded: {_peak(mine)}"
            below = next_below(quota, [row for row in quotas if row.pool_id == quota.pool_id])
            own = [one for one in mine if not one.reservation.borrowed and not any(
                one.reservation.tenant.path.startswith(row.tenant.path) for row in below)]  # fmt: skip
            assert _peak(own) <= own_share(quota, below), f"more than {quota} is held as guaranteed: {_peak(own)}"


def _peak(leases: list[Lease]) -> int:
    changes: dict[dt.datetime, int] = defaultdict(int)
    for one in leases:
        changes[one.during.lower] += one.reservation.weight
        changes[one.during.upper] -= one.reservation.weight
    held = peak = 0
    for moment in sorted(changes):
        held += changes[moment]
        peak = max(peak, held)
    return peak


def check_the_ledger_brackets_each_lease() -> None:
    kinds: dict[int, Counter] = defaultdict(Counter)
    for lease_id, kind in LedgerEntry.objects.values_list("lease_id", "kind"):
        kinds[lease_id][kind] += 1
    states = dict(Lease.objects.values_list("pk", "state"))
    for lease_id, found in kinds.items():
        assert found["opened"] - found["closed"] in (0, 1), f"lease {lease_id}: {found}"
        at_rest = states[lease_id] in (LeaseState.ENDED, LeaseState.FAILED)
        assert at_rest == (found["opened"] == found["closed"]), f"lease {lease_id} is {states[lease_id]}: {found}"


def check_every_state_has_a_way_out() -> None:
    """What waits has a deadline, what is promised has its places, what is over has none."""
    rows = Reservation.objects.select_related("wait").prefetch_related("leases")
    for reservation in rows:
        live = [lease for lease in reservation.leases.all() if lease.state in LIVE]
        if reservation.state == State.REQUESTED:
            assert reservation.hold_expires_at is not None
            assert all(lease.frozen_at is None for lease in live), f"{reservation} was handed out unapproved"
        if reservation.state == State.QUEUED:
            assert reservation.wait.give_up_at is not None
        if reservation.state in (State.REQUESTED, State.CONFIRMED, State.RUNNING):
            standing = [lease for lease in live if lease.state != LeaseState.STOPPING]
            assert live, f"{reservation} is {reservation.state} and holds nothing"
            assert not standing or {lease.during for lease in standing} == {reservation.during}, f"{reservation}"
            assert len({lease.rank for lease in live}) <= reservation.ranks
        if reservation.state in FINAL:
            assert all(lease.state == LeaseState.STOPPING for lease in live), f"{reservation} is over and holds {live}"


def check_no_budget_is_overdrawn(now: dt.datetime, cut: set[int]) -> None:
    for budget in Budget.objects.select_related("tenant"):
        if budget.pk in cut:
            continue
        status = next(one for one in budget_statuses(budget.tenant, now) if one.budget.pk == budget.pk)
        assert status.left >= 0, f"{budget} is overdrawn by {-status.left}"


def check_what_is_over_stays_as_it_was(known: dict[int, tuple]) -> None:
    """``known`` is filled as reservations come to rest, and compared from then on."""
    for row in Reservation.objects.exclude(state__in=UNDER_WAY):
        facts = (row.state, row.end_reason, row.during.lower, row.during.upper, row.ended_at, row.weight, row.ranks)
        assert known.setdefault(row.pk, facts) == facts, f"{row} changed after it was over"
