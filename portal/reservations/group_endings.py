"""When a rank of a group is lost the others end too, or all begin again in the same places.

Each function wants every lease of the group locked, by id; the reservation and then the nodes are locked here. A rank
that ended well is no loss: the others go on to their own end.
"""

import datetime as dt

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from agents.group_reasons import CHECKS, PEER_FAILED, PEER_LOST, PEER_WITHDRAWN
from agents.protocol import LeaseEvent
from portal.audit.services import record_change
from portal.inventory.models import GpuState, NodeState
from portal.inventory.services import raise_generations
from portal.reservations.ending import close_reservation, lock_reservations, withdraw_leases
from portal.reservations.group_facts import is_group
from portal.reservations.models import (
    BOUND,
    LIVE,
    MOVED,
    OPEN,
    RESTARTED,
    Lease,
    LeaseState,
    Reservation,
)
from portal.reservations.rebinding import lock_nodes, nodes_of
from portal.reservations.telling import tell_pages
from portal.workloads.models import RankLoss, Workload

LOSSES = CHECKS | {
    PEER_LOST, PEER_FAILED, PEER_WITHDRAWN, "start_failed", "gpu_lost", "node_lost", "exit_failed"}
# With less than this left, a group that is lost is not worth another start.
WORTH_A_RESTART = dt.timedelta(minutes=2)
MOST_ROWS = 200


def lock_group(lease_id: int) -> None:
    """Every lease of the group that this one is a rank of, before any of them is looked at; nothing for another."""
    whole = Lease.objects.filter(pk=lease_id, reservation__ranks__gt=1).values("reservation")
    rows = Lease.objects.select_for_update(no_key=True, of=("self",)).filter(reservation__in=whole).order_by("pk")
    list(rows.values_list("pk", flat=True))


def heed_loss(lease: Lease, event: LeaseEvent, now: dt.datetime) -> None:
    """Whether what an agent said of one rank is the end of its group."""
    lost = event.reason in LOSSES or (event.kind == "freed" and bool(event.exit_code))
    if lost and lease.end_reason not in (MOVED, RESTARTED) and is_group(lease.reservation):
        _give_up(lease.reservation, now)


def begin_again_where_free(lease: Lease, now: dt.datetime) -> None:
    """A rank that came to rest for a restart takes its place again; with the last of them all are handed out."""
    lease.refresh_from_db(fields=["state", "end_reason"])
    if lease.end_reason != RESTARTED or lease.state in LIVE:
        return
    reservation = lease.reservation
    lock_reservations([reservation.pk])
    served = Lease.objects.filter(reservation=reservation, rank=lease.rank, state__in=BOUND).exists()
    is_open = Reservation.objects.filter(pk=reservation.pk, state__in=OPEN).exists()
    if served or not is_open or lease.during.upper <= now:
        return
    _bind_again(lease, now)
    bound = Lease.objects.filter(reservation=reservation, state__in=BOUND)
    if bound.count() == reservation.ranks:
        bound.filter(frozen_at__isnull=True).update(frozen_at=now)
        raise_generations(nodes_of(bound.values_list("gpu_id", flat=True)))


def _bind_again(lease: Lease, now: dt.datetime) -> None:
    during = DateTimeTZRange(max(now, lease.during.lower), lease.during.upper, "[)")
    Lease.objects.create(
        reservation_id=lease.reservation_id, rank=lease.rank, gpu_id=lease.gpu_id, span=lease.span, during=during,
        attempt=0)  # fmt: skip


def _give_up(reservation: Reservation, now: dt.datetime) -> None:
    leases = list(Lease.objects.filter(reservation=reservation).exclude(end_reason__in=[MOVED, RESTARTED]))
    bound = [lease for lease in leases if lease.state in BOUND]
    lock_reservations([reservation.pk])
    lock_nodes([lease.gpu_id for lease in leases])
    if _begins_again(reservation, leases, now):
        Lease.objects.filter(pk__in=[lease.pk for lease in leases]).update(end_reason=RESTARTED)
    withdraw_leases(bound)
    for lease in Lease.objects.filter(pk__in=[lease.pk for lease in leases]).select_related("reservation"):
        begin_again_where_free(lease, now)
    tell_pages(reservation)


def _begins_again(reservation: Reservation, leases: list[Lease], now: dt.datetime) -> bool:
    """Counts the restart where there is one. A group that was taken back, or of which a rank is done, is over; so is
    one that has lost a GPU for good. A node that is silent may come back: the others wait as for any start."""
    unfit = Q(gpu__node__state=NodeState.RETIRED) | Q(gpu__state=GpuState.FAULTY) | Q(gpu__present=False)
    if Lease.objects.filter(unfit, pk__in=[lease.pk for lease in leases]).exists():
        return False
    given_back = any(lease.withdrawn_generation is not None for lease in leases)
    done = any(lease.state == LeaseState.ENDED and lease.end_reason not in LOSSES for lease in leases)
    if given_back or done or reservation.during.upper - now < WORTH_A_RESTART:
        return False
    again = Workload.objects.filter(
        pk=reservation.workload_id, rank_loss=RankLoss.RESTART, restarts__lt=F("restarts_most"))
    if not again.update(restarts=F("restarts") + 1):
        return False
    restarts = Workload.objects.values_list("restarts", flat=True).get(pk=reservation.workload_id)
    record_change(
        actor=None, action="reservation.restarted", subject=reservation.number, tenant_id=reservation.tenant_id,
        after={"restarts": restarts})  # fmt: skip
    return True


def end_lost_groups() -> int:
    """What no agent's word brought about: a node that was written off, a report that came when a lock was held."""
    gone = Lease.objects.filter(reservation=OuterRef("reservation"), end_reason__in=LOSSES).exclude(state__in=LIVE)
    left = Lease.objects.filter(
        Exists(gone), state__in=BOUND, reservation__state__in=OPEN, reservation__ranks__gt=1,
        reservation__profile__whole=True, reservation__profile__nvml_profile_id__isnull=True)  # fmt: skip
    ids = sorted(set(left.values_list("reservation_id", flat=True)[:MOST_ROWS]))
    for reservation_id in ids:
        _end_group(reservation_id)
    return len(ids)


@transaction.atomic
def _end_group(reservation_id: int) -> None:
    leases = Lease.objects.select_for_update(no_key=True).filter(reservation=reservation_id).order_by("pk")
    list(leases)
    reservation = Reservation.objects.select_related("workload", "profile").get(pk=reservation_id)
    if leases.filter(Q(end_reason__in=LOSSES) & ~Q(state__in=LIVE)).exists():
        _give_up(reservation, timezone.now())
        close_reservation(reservation_id)
