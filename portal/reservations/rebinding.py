"""Binding leases: writing them, giving them another window, giving them another place. Call under the pool's lock."""

import datetime as dt
from collections.abc import Iterable, Sequence

from django.conf import settings
from django.db import connection
from psycopg2.extras import DateTimeTZRange, NumericRange

from portal.inventory.models import Gpu, Node, Profile
from portal.inventory.services import raise_generations
from portal.reservations.models import OPEN, Lease, LeaseState, Reservation
from portal.reservations.queue_bell import ring_for_those_who_wait
from scheduler.placement.geometry import Placement, counted_as

# Also says whether anybody waits in the pool.
RAISE_REVISION = """
UPDATE inventory_pool AS p SET revision = revision + 1 WHERE p.id = %s RETURNING EXISTS (
    SELECT FROM reservations_wait w JOIN reservations_reservation r ON r.id = w.reservation_id
    WHERE r.pool_id = p.id AND r.state = 'queued')
"""


def bind(
    reservation: Reservation, profile: Profile, placements: Sequence[Placement], now: dt.datetime, *,
    freeze: bool = True,
) -> None:  # fmt: skip
    """One new lease a rank. Those of a confirmed reservation that starts within the horizon are frozen at once and
    handed to their nodes, unless not ``freeze``; a reservation that is only held keeps its place and is not."""
    frozen_at = now if freeze and _starts_soon(reservation, now) else None
    Lease.objects.bulk_create(_lease(reservation, profile, placement, frozen_at) for placement in placements)
    touch_pool(reservation.pool_id)
    if frozen_at:
        raise_generations(nodes_of(placement.gpu_id for placement in placements))


def bind_each(reservations: Sequence[Reservation], profile: Profile, placements: Sequence[Placement]) -> None:
    """Deal the placements out to reservations of one size, in order. Nothing is frozen: :func:`freeze_now` does."""
    placed = iter(placements)
    Lease.objects.bulk_create(
        _lease(reservation, profile, next(placed)._replace(rank=rank), None)
        for reservation in reservations
        for rank in range(reservation.ranks)
    )
    touch_pool(reservations[0].pool_id)


def freeze_now(reservation: Reservation, now: dt.datetime) -> None:
    """After a hold became a promise: what starts within the horizon is handed to its nodes."""
    if not _starts_soon(reservation, now):
        return
    leases = Lease.objects.filter(reservation=reservation, state=LeaseState.PLANNED, frozen_at__isnull=True)
    gpu_ids = list(leases.values_list("gpu_id", flat=True))
    leases.update(frozen_at=now)
    raise_generations(nodes_of(gpu_ids))


def set_window(reservation: Reservation, leases: Iterable[Lease], during: DateTimeTZRange) -> None:
    """The same places for another window. Nodes that know of a lease are told; the constraint has the last word."""
    leases = list(leases)
    Lease.objects.filter(pk__in=[lease.pk for lease in leases]).update(during=during)
    Reservation.objects.filter(pk=reservation.pk).update(during=during)
    touch_pool(reservation.pool_id)
    raise_generations(nodes_of(lease.gpu_id for lease in leases if lease.frozen_at is not None))


def touch_pool(pool_id: int) -> None:
    """Whoever keeps a picture of the pool sees that it is old; who waits in it may have a place now."""
    with connection.cursor() as cursor:
        cursor.execute(RAISE_REVISION, [pool_id])
        row = cursor.fetchone()
    if row is not None and row[0]:
        ring_for_those_who_wait(pool_id)


def lock_nodes(gpu_ids: Iterable[int]) -> None:
    """The nodes of these GPUs at once and in id order: call it before a transaction raises generations several times,
    with every lease locked that it will lock."""
    list(Node.objects.select_for_update(no_key=True).filter(pk__in=nodes_of(gpu_ids)).order_by("pk"))


def nodes_of(gpu_ids: Iterable[int]) -> set[int]:
    return set(Gpu.objects.filter(pk__in=list(gpu_ids)).values_list("node_id", flat=True))


def _starts_soon(reservation: Reservation, now: dt.datetime) -> bool:
    return reservation.state in OPEN and reservation.during.lower <= now + freeze_horizon(reservation.borrowed)


def freeze_horizon(borrowed: bool) -> dt.timedelta:
    """So long before its start a lease is frozen. What is borrowed can give way as a whole until the notice begins."""
    return min(settings.FREEZE_HORIZON, settings.DISPLACE_NOTICE) if borrowed else settings.FREEZE_HORIZON


def _lease(reservation: Reservation, profile: Profile, placement: Placement, frozen_at: dt.datetime | None) -> Lease:
    limited = profile.max_count == 1 and len(profile.starts) > 1
    return Lease(
        reservation=reservation,
        rank=placement.rank,
        gpu_id=placement.gpu_id,
        frozen_at=frozen_at,
        span=NumericRange(placement.start, placement.end, "[)"),
        during=reservation.during,
        only_one=counted_as(profile.name) if limited else None,
    )
