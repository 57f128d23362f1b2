"""What a change would do, found out by doing it and taking it back: the same rules, the same words, nothing kept."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import OperationalError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Gpu
from portal.reservations.booking import find_place, lock_pool
from portal.reservations.borrowing import borrowers_in, promote_own
from portal.reservations.closures import open_maintenance
from portal.reservations.displacing import Claimed
from portal.reservations.errors import Busy, ReservationRefused
from portal.reservations.models import BOUND, OPEN, Lease, Reservation
from portal.reservations.moving import change_window, in_the_way
from portal.reservations.request import Request, price_of, request_again
from portal.reservations.rules import check_request
from portal.reservations.spending import BudgetStatus, budget_statuses_during

LOOKED_AHEAD = dt.timedelta(days=7)


@dataclass(frozen=True)
class Outcome:
    """What the reservation would be in another window. ``extra`` is what it would cost more, negative for less, and
    ``budget`` the tightest one, as it would be after it; both are None when it is refused."""

    during: DateTimeTZRange
    refusal: ReservationRefused | None
    borrowed: bool = False
    extra: int | None = None
    budget: BudgetStatus | None = None
    left_after: int | None = None
    moves: bool = False


def outcome_of(reservation: Reservation, during: DateTimeTZRange, actor: User) -> Outcome:
    """Holds the pool's lock for as long as the change itself would."""
    before = _places(reservation)
    try:
        changed, places = _tried(reservation, during, actor)
    except ReservationRefused as refusal:
        return Outcome(during, refusal)
    request, now = request_again(reservation, during, actor), timezone.now()
    statuses = budget_statuses_during(reservation.tenant, during.lower, during.upper, now, instead_of=reservation)
    return outcome_with(request, reservation, statuses, now, changed.borrowed, before != places)


def outcome_with(
    request: Request,
    reservation: Reservation,
    statuses: Sequence[BudgetStatus],
    now: dt.datetime,
    borrowed: bool,
    moves: bool,
) -> Outcome:
    """Of a change that is possible. ``statuses`` are of the periods that it meets, without what it holds now."""
    during = request.during
    since = max(during.lower, now)
    left = [(status.left - status.cost(request.weight, since, during.upper), status) for status in statuses]
    left_after, budget = min(left, key=lambda pair: pair[0], default=(None, None))
    extra = price_of(request, during) - reservation.price_slice_seconds
    return Outcome(during, None, borrowed, extra, budget, left_after, moves)


class _TakenBack(Exception):
    pass


def _tried(
    reservation: Reservation, during: DateTimeTZRange, actor: User
) -> tuple[Reservation, set[tuple[int, int, int]]]:
    try:
        with transaction.atomic():
            changed = change_window(reservation=reservation, during=during, actor=actor)
            places = _places(reservation)
            raise _TakenBack
    except _TakenBack:
        return changed, places
    except OperationalError as error:
        busy = _("%(pool)s is being changed by many at once. Nothing was changed; try again.")
        raise Busy(busy % {"pool": reservation.pool}) from error


def claim_of(request: Request, now: dt.datetime) -> Claimed | None:
    """Whom a request that finds no room would displace, and where it would sit then; None when nobody gives way.

    Looks under the pool's lock, and only where somebody borrows.
    """
    if request.during.isempty or not borrowers_in(request.pool, request.during):
        return None
    claimed = None
    try:
        with transaction.atomic():
            lock_pool(request.pool.pk)
            promote_own(request)
            claimed = find_place(request, check_request(request, now), now)
            raise _TakenBack
    except _TakenBack:
        return claimed
    except (ReservationRefused, OperationalError):
        return None


def _places(reservation: Reservation) -> set[tuple[int, int, int]]:
    leases = Lease.objects.filter(reservation=reservation, state__in=BOUND)
    return {(lease.rank, lease.gpu_id, lease.span.lower) for lease in leases}


def free_until(reservation: Reservation) -> dt.datetime | None:
    """Until when nobody else holds its places after its end; None when that is further away than a week."""
    leases = list(Lease.objects.filter(reservation=reservation, state__in=BOUND))
    if reservation.state not in OPEN or not leases:
        return None
    after = DateTimeTZRange(reservation.ends_at, reservation.ends_at + LOOKED_AHEAD, "[)")
    following = in_the_way(leases, after).first()
    gpus = Gpu.objects.filter(pk__in=[lease.gpu_id for lease in leases])
    nodes, pools = {gpu.node_id for gpu in gpus}, {gpu.pool_id for gpu in gpus}
    closed = [
        one.during.lower
        for one in open_maintenance(after)
        if (one.node_id is None or one.node_id in nodes) and (one.pool_id is None or one.pool_id in pools)
    ]
    return min([*closed, *([following.during.lower] if following else [])], default=None)
