"""Later ends of one reservation, tried against one look at its pool: the rules of a change, without a query for each.

A look has no locks and displaces nobody. What hangs on who borrows, or on a place that it does not see, it leaves open
(:class:`Unsure`): then the change itself is tried, and taken back.
"""

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.reservations.booking import no_room
from portal.reservations.borrowing import shares_of, would_borrow
from portal.reservations.errors import QuotaExceeded, ReservationRefused
from portal.reservations.models import BOUND, OPEN, Lease, Reservation
from portal.reservations.moving import check_needs_no_approval, place_taken_from
from portal.reservations.outlook import Outlook, PoolOutlook, outlook_around, peak_below
from portal.reservations.policy_rules import check_coverage, check_policy
from portal.reservations.reasons import quota_exceeded
from portal.reservations.request import Request, request_again
from portal.reservations.rules import check_member, check_shape, no_access
from portal.reservations.selectors import OVERDUE_HOLD, shape_of, window_of
from portal.reservations.spending import refuse_over_budget
from portal.reservations.trying import LOOKED_AHEAD, Outcome, free_until, outcome_of, outcome_with
from portal.reservations.windows import check_changed_window
from scheduler.placement.geometry import MAINTENANCE, GpuView, Held, free_count

log = logging.getLogger(__name__)


class Unsure(Exception):
    """Only the change itself can tell."""


@dataclass(frozen=True)
class Look:
    """``leads``: whether the actor leads the tenant; ``known_member``: whether it is sure that the owner may reserve in
    it. ``leases`` are all of the reservation that live."""

    reservation: Reservation
    leases: Sequence[Lease]
    outlook: Outlook
    actor: User
    leads: bool
    known_member: bool

    @cached_property
    def here(self) -> PoolOutlook | None:
        return self.outlook.pools.get(self.reservation.pool_id)

    @property
    def sees_its_place(self) -> bool:
        return self.here is not None and all(lease.gpu_id in self.here.gpus for lease in self.leases)

    def covers(self, during: DateTimeTZRange) -> bool:
        """Whether the window is a later end of the same reservation that was looked at."""
        mine = self.reservation
        return during.lower == mine.starts_at and mine.ends_at < during.upper <= self.outlook.until

    def beside(self, during: DateTimeTZRange) -> Iterator[Held]:
        """What others hold of its own places within the window, maintenance too."""
        window = window_of(during)
        for lease in self.leases:
            for held in self._views[lease.gpu_id].held:
                here = held.start < lease.span.upper and lease.span.lower < held.end
                if here and held.since < window.end and window.start < held.until:
                    yield held

    @cached_property
    def _views(self) -> dict[int, GpuView]:
        return {view.gpu_id: view for view in self.here.views} if self.here else {}


def look_around(
    reservation: Reservation, leases: Sequence[Lease], actor: User, *, leads: bool, known_member: bool
) -> Look:
    """Its window and the week after it: seven queries, and one more where a policy limits what the owner holds."""
    around = DateTimeTZRange(reservation.starts_at, reservation.ends_at + LOOKED_AHEAD, "[)")
    outlook = outlook_around(
        reservation.tenant, around, timezone.now(), pool=reservation.pool, margin=dt.timedelta(0),
        owner_id=reservation.owner_id, whole=reservation.pool_id, instead_of=reservation,
    )  # fmt: skip
    return Look(reservation, leases, outlook, actor, leads, known_member)


class Tries:
    """What windows would come to, each found out in the cheapest way that is sure. ``leases`` are all that live."""

    def __init__(
        self, reservation: Reservation, leases: Sequence[Lease], actor: User, *, leads: bool, known_member: bool
    ) -> None:
        self._reservation, self._actor = reservation, actor
        self._read = lambda: look_around(reservation, leases, actor, leads=leads, known_member=known_member)
        self._can_look = reservation.state in OPEN and bool(leases) and all(lease.state in BOUND for lease in leases)

    @cached_property
    def _look(self) -> Look | None:
        look = self._read() if self._can_look else None
        return look if look and look.sees_its_place else None

    @property
    def free_until(self) -> dt.datetime | None:
        return free_until_seen(self._look) if self._look else free_until(self._reservation)

    def outcome(self, during: DateTimeTZRange) -> Outcome:
        if self._look is not None and self._look.covers(during):
            try:
                return outcome_until(self._look, during.upper)
            except Unsure:
                log.debug("%s until %s: only trying can tell", self._reservation.number, during.upper)
        return outcome_of(self._reservation, during, self._actor)


def free_until_seen(look: Look) -> dt.datetime | None:
    """Until when nobody else holds its places after its end; None when that is further away than a week."""
    end = look.reservation.ends_at
    ahead = [held.since for held in look.beside(DateTimeTZRange(end, end + LOOKED_AHEAD, "[)"))]
    return dt.datetime.fromtimestamp(min(ahead), dt.UTC) if ahead else None


def outcome_until(look: Look, end: dt.datetime) -> Outcome:
    """What the reservation would be with a later end, as :func:`portal.reservations.trying.outcome_of` says it."""
    during = DateTimeTZRange(look.reservation.starts_at, end, "[)")
    request = request_again(look.reservation, during, look.actor)
    try:
        borrowed, moves = _decided(look, request)
    except ReservationRefused as refusal:
        return Outcome(during, refusal)
    met = [one for one in look.outlook.budgets if one.since < during.upper and during.lower < one.until]
    return outcome_with(request, look.reservation, met, look.outlook.now, borrowed, moves)


def _decided(look: Look, request: Request) -> tuple[bool, bool]:
    """Whether it would be borrowed and whether it would sit elsewhere, or the refusal: in the order of a change."""
    here, during = look.here, request.during
    if not look.known_member:
        check_member(request.owner, request.tenant)
    if here is None:
        raise no_access(request.tenant, request.pool)
    lent = [one for one in here.holdings if one.borrowed and one.since < during.upper and during.lower < one.until]
    shares = shares_of(request.tenant, during, look.outlook.shared[here.pool.pk])
    if any(share.includes(one.tenant_path) for share in shares for one in lent):
        raise Unsure  # what has become free of the guarantee goes to them first
    borrowed, crowded = _allowed(look, here, request)
    check_needs_no_approval(request, during, policy=look.outlook.policy, leads=look.leads)
    try:
        return borrowed, _moves(look, here, request, crowded)
    except ReservationRefused as refusal:
        if lent and not borrowed:
            raise Unsure from refusal  # somebody may give way
        raise


def _allowed(look: Look, here: PoolOutlook, request: Request) -> tuple[bool, QuotaExceeded | None]:
    outlook, during = look.outlook, request.during
    check_changed_window(during, here.pool, outlook.now)
    check_coverage(here.quotas, during)
    check_shape(here.pool, request.profile, request.ranks)
    own = outlook.own
    check_policy(
        outlook.policy, pool=here.pool, profile=request.profile, weight=request.weight_of_owner, during=during,
        now=outlook.now, image=None, has_started=True,
        held_by_person=None if own is None else lambda tenant: peak_below(tenant.path, during, own))  # fmt: skip
    borrowed, crowded = would_borrow(outlook, here.pool, request.weight, during), _crowded(here, request)
    if crowded and borrowed:
        raise crowded
    refuse_over_budget(outlook.budgets, request.weight, max(during.lower, outlook.now), during.upper)
    return borrowed, crowded


def _crowded(here: PoolOutlook, request: Request) -> QuotaExceeded | None:
    for use in here.quota_uses(request.during):
        if request.weight > use.left:
            return quota_exceeded(str(use.quota.tenant), use.quota.limit, use.held, request.weight)
    return None


def _moves(look: Look, here: PoolOutlook, request: Request, crowded: QuotaExceeded | None) -> bool:
    """Whether it would sit elsewhere: what a node knows of stays where it is, or cannot be changed."""
    beside = list(look.beside(request.during))
    overdue = int((look.outlook.now + OVERDUE_HOLD).timestamp())
    if any(held.until == overdue for held in beside):
        raise Unsure  # its place is another's still
    if not beside and crowded is None:
        return False
    if any(lease.frozen_at is not None for lease in look.leases):
        others = [held for held in beside if held.shape != MAINTENANCE]
        if crowded and not others:
            raise crowded
        first = min((held.since for held in others), default=None)
        raise place_taken_from(None if first is None else dt.datetime.fromtimestamp(first, dt.UTC))
    if crowded is not None:
        raise crowded
    if free_count(shape_of(request.profile), here.views, window_of(request.during)) < request.ranks:
        raise no_room(request)
    return True
