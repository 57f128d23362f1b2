"""One pass over a pool's queue: who can start now gets its place, the others an estimate and the reason why they wait.

In fair order, and exact, since every lease has an end: a later request takes a gap only where it does not delay what is
planned for those ahead. A pass ends when nothing more can be served; what it then stores is what anybody who looks at
the same rows works out again.
"""

import datetime as dt
import logging
import time
from collections.abc import Sequence

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.models import Budget
from portal.reservations.booking import find_place, lock_pool, retried
from portal.reservations.borrowing import promote_own
from portal.reservations.displacing import Claimed, claim_room
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import UNDER_WAY, Lease, Reservation, State, Wait
from portal.reservations.queue_binding import bind_offer, bind_place, give_up_late, request_of
from portal.reservations.queue_board import Board, board_of
from portal.reservations.queue_plan import Planned, latest_start, plan_of, reason_of
from portal.reservations.queue_use import in_turn, standings_in
from portal.reservations.rebinding import freeze_now, lock_nodes
from portal.reservations.rules import check_request
from portal.reservations.telling import tell_pages

log = logging.getLogger(__name__)

MOST_PLANNED = 200
MOST_CLAIMS = 20
PASS_SECONDS = 8.0
LOOKED_AT_EVERY = dt.timedelta(seconds=20)


def serve_queue(pool_id: int, now: dt.datetime | None = None) -> int:
    """Serve what can be served in the pool; returns how many got a place or an offer. Locks the pool, then budgets."""
    pool = Pool.objects.get(pk=pool_id)
    return retried(pool, lambda: serve_under_lock(lock_pool(pool_id), now or timezone.now()))


def pools_to_look_at(now: dt.datetime | None = None) -> list[int]:
    """Pools in which somebody waits that no pass has looked at lately."""
    stale = Wait.objects.exclude(checked_at__gt=(now or timezone.now()) - LOOKED_AT_EVERY)
    rows = stale.filter(reservation__state=State.QUEUED, reservation__hold_expires_at__isnull=True)
    return sorted(set(rows.values_list("reservation__pool_id", flat=True)))


def was_looked_at(pool_id: int, since: dt.datetime) -> bool:
    """Whether a pass that began at ``since`` or later has looked at all that wait in the pool."""
    rows = Wait.objects.filter(reservation__pool_id=pool_id, reservation__hold_expires_at__isnull=True)
    return not rows.exclude(checked_at__gte=since).exists()


def serve_under_lock(pool: Pool, now: dt.datetime) -> int:
    """As ``serve_queue``, within the caller's transaction."""
    now = now.replace(microsecond=0)
    give_up_late(pool, now)
    _lock_budgets(pool)
    refused: dict[int, ReservationRefused] = {}
    deadline = time.monotonic() + PASS_SECONDS
    served: list[Reservation] = []
    while True:
        planned, some = _pass(pool, now, refused, deadline)
        served += some
        if not some or time.monotonic() > deadline:
            break
    _store(planned, now)
    _hand_out(served, now)
    return len(served)


def waiting_in(pool: Pool) -> QuerySet[Reservation]:
    """Requests without a place and without an offer."""
    rows = Reservation.objects.filter(pool=pool, state=State.QUEUED, hold_expires_at__isnull=True, wait__isnull=False)
    return rows.select_related("wait", "tenant", "owner", "profile", "workload", "created_by", "pool")


def planned_in(pool: Pool, now: dt.datetime) -> list[Planned]:
    """What a pass would store, worked out from the rows as they are; serves and writes nothing."""
    return plans_in(pool, now)[1]


def plans_in(pool: Pool, now: dt.datetime, only_until: Reservation | None = None) -> tuple[Board, list[Planned]]:
    """Plans in fair order; ``only_until`` is one beside those that wait, not stored, and the last that is planned."""
    waiting = [*waiting_in(pool), *([only_until] if only_until else [])]
    board = board_of(pool, waiting, now)
    planned = []
    for reservation in in_turn(waiting, [one for _tenant, one in standings_in(pool, now)]):
        planned.append(plan_of(board, reservation))
        if reservation is only_until:
            break
        if planned[-1].during is not None:
            board.plan(reservation, planned[-1].during, planned[-1].placements)
    return board, planned


def _pass(
    pool: Pool, now: dt.datetime, refused: dict[int, ReservationRefused], deadline: float
) -> tuple[list[Planned], list[Reservation]]:
    """Plans in fair order, and who was served on the way."""
    waiting = list(waiting_in(pool))
    if not waiting:
        return [], []
    board = board_of(pool, waiting, now)
    claims_left = MOST_CLAIMS if _anybody_borrows(pool) else 0
    planned: list[Planned] = []
    served: list[Reservation] = []
    for reservation in in_turn(waiting, [one for _tenant, one in standings_in(pool, now)])[:MOST_PLANNED]:
        if time.monotonic() > deadline:
            log.warning("pool %s: %d of %d requests were looked at in time", pool.pk, len(planned), len(waiting))
            break
        plan = plan_of(board, reservation)
        if _is_due(board, plan) and _serve(board, plan, refused):
            served.append(reservation)
            continue
        if claims_left and not reservation.wait.fixed:
            claims_left -= 1
            if _claim(board, plan):
                return planned, [*served, reservation]  # who gave way waits now, too
        planned.append(_with_refusal(plan, refused))
        if planned[-1].during is not None:
            board.plan(reservation, plan.during, plan.placements)
    return planned, served


def _is_due(board: Board, plan: Planned) -> bool:
    if plan.during is None:
        return False
    return plan.reservation.wait.fixed or plan.during.lower <= latest_start(board, plan.reservation)


def _serve(board: Board, plan: Planned, refused: dict[int, ReservationRefused]) -> bool:
    """Booking's own check has the last word; what it refuses is not asked again in this pass."""
    reservation, during = plan.reservation, plan.during
    if reservation.pk in refused or during is None:
        return False
    request = request_of(reservation, during)
    promote_own(request)
    try:
        allowed = check_request(request, board.now)
        claimed = find_place(request, allowed, board.now)
    except ReservationRefused as refusal:
        log.info("%s was planned for %s and refused: %s", reservation, during, refusal.code)
        refused[reservation.pk] = refusal
        return False
    # Who asked a moment ago for a window that turns out to be free has it; who waited may have thought of other things.
    asks_now = reservation.wait.checked_at is None
    place = bind_offer if reservation.wait.fixed and not asks_now else bind_place
    place(request, reservation, allowed, claimed, board.now)
    board.bind(reservation, during, claimed.placements)
    return True


def _claim(board: Board, plan: Planned) -> bool:
    """What is guaranteed need not wait for who borrows longer than the notice that these are given."""
    reservation, notice = plan.reservation, board.now + settings.DISPLACE_NOTICE
    start = max(notice, reservation.wait.not_before)
    if (plan.during is not None and plan.during.lower <= start) or start > latest_start(board, reservation):
        return False
    start = start.replace(microsecond=0) + dt.timedelta(seconds=bool(start.microsecond))
    request = request_of(reservation, DateTimeTZRange(
        start, start + dt.timedelta(seconds=reservation.wait.seconds), "[)"))  # fmt: skip
    promote_own(request)
    try:
        allowed = check_request(request, board.now)
    except ReservationRefused:
        return False
    claimed: Claimed | None = None if allowed.borrowed else claim_room(request, allowed, board.now)
    if claimed is None:
        return False
    bind_place(request, reservation, allowed, claimed, board.now)
    return True


def _with_refusal(plan: Planned, refused: dict[int, ReservationRefused]) -> Planned:
    """What was refused holds no place for later."""
    refusal = refused.get(plan.reservation.pk)
    if refusal is None:
        return plan
    reason, evidence = reason_of(refusal)
    return Planned(plan.reservation, None, (), reason, {**evidence, "until": None})


def _anybody_borrows(pool: Pool) -> bool:
    return Reservation.objects.filter(pool=pool, borrowed=True, state__in=UNDER_WAY).exclude(
        state=State.QUEUED).exists()  # fmt: skip


def _lock_budgets(pool: Pool) -> None:
    """Of every tenant that waits, and of all above them, from the root down; the same order as a booking's."""
    paths = Reservation.objects.filter(pool=pool, state=State.QUEUED).values_list("tenant__path", flat=True)
    above = {int(part) for path in paths.distinct() for part in path.strip("/").split("/")}
    rows = Budget.objects.filter(tenant_id__in=above).order_by("tenant__path")
    list(rows.select_for_update(no_key=True, of=("self",)))


def _hand_out(served: Sequence[Reservation], now: dt.datetime) -> None:
    """What begins soon goes to its nodes; their rows are locked last, and all at once."""
    confirmed = [one for one in served if one.state == State.CONFIRMED]
    lock_nodes(Lease.objects.filter(reservation__in=confirmed).values_list("gpu_id", flat=True))
    for reservation in confirmed:
        freeze_now(reservation, now)


def _store(planned: Sequence[Planned], now: dt.datetime) -> None:
    """Estimates and reasons; an open page is told when what it shows has changed."""
    waits, moved = [], []
    for plan in planned:
        reservation, wait = plan.reservation, plan.reservation.wait
        start = plan.during.lower if plan.during else None
        changed = (wait.reason, wait.evidence, wait.estimated_at) != (plan.reason, plan.evidence, start)
        wait.reason, wait.evidence, wait.estimated_at, wait.checked_at = plan.reason, plan.evidence, start, now
        waits.append(wait)
        if plan.during is not None and not wait.fixed and reservation.during != plan.during:
            reservation.during = plan.during
            moved.append(reservation)
        if changed:
            tell_pages(reservation)
    Wait.objects.bulk_update(waits, ["reason", "evidence", "estimated_at", "checked_at"])
    Reservation.objects.bulk_update(moved, ["during"])
