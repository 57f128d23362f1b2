"""Changing one's mind: another window or another name. All ranks together, by the rules that a new booking obeys.

What only gives back, a shorter window within the one that is held, is bound by no limit: who is asked to hold less can.
"""

import datetime as dt
from collections.abc import Sequence

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Gpu, NodeState
from portal.notices.models import Kind
from portal.quotas.policies import EffectivePolicy, policy_of
from portal.reservations.booking import find_place, lock_budgets, lock_pool, no_room, retried
from portal.reservations.borrowing import promote_own
from portal.reservations.changing import already, lock_whole
from portal.reservations.closures import closures
from portal.reservations.displacing import Claimed, Place, claim_room
from portal.reservations.ending import MOVED, withdraw_leases
from portal.reservations.errors import NoCapacity, PolicyRefused, StateConflict, WorkloadRefused
from portal.reservations.giving_way import make_way
from portal.reservations.models import BOUND, LIVE, OPEN, UNDER_WAY, Lease, LeaseState, Reservation
from portal.reservations.questions import above_threshold
from portal.reservations.reasons import slice_hours
from portal.reservations.rebinding import bind, set_window
from portal.reservations.request import Request, price_of, request_again
from portal.reservations.rules import Allowed, check_request, checked_window
from portal.reservations.selectors import bookable_gpus, window_of
from portal.reservations.telling import tell_owner, tell_pages
from portal.workloads.drafts import DraftRefused, check_name
from scheduler.placement.geometry import GpuView, Placement, span_mask, taken_mask


def change_reservation(
    *, reservation: Reservation, actor: User, during: DateTimeTZRange | None = None, name: str | None = None
) -> Reservation:
    """Another window, another name, or both; raises :class:`ReservationRefused` and changes nothing.

    What has started keeps its start and its place. What has not stays where it is if it can, and else is placed anew,
    all ranks or none. Locks the pool, the budgets, the leases, the reservation, the nodes.
    """
    return retried(reservation.pool, lambda: _both(reservation, actor, during, name))


def change_window(*, reservation: Reservation, during: DateTimeTZRange, actor: User) -> Reservation:
    """Extend, shorten or move, as :func:`change_reservation` does."""
    return change_reservation(reservation=reservation, actor=actor, during=during)


def rename_reservation(*, reservation: Reservation, name: str, actor: User) -> Reservation:
    """Another name for the workload while the reservation is under way; raises StateConflict once it is over."""
    return change_reservation(reservation=reservation, actor=actor, name=name)


def _both(reservation: Reservation, actor: User, during: DateTimeTZRange | None, name: str | None) -> Reservation:
    lock_pool(reservation.pool_id)
    if during is not None:
        lock_budgets(reservation.tenant)
    reservation, leases = lock_whole(reservation)
    if during is not None:
        _change(reservation, [lease for lease in leases if lease.state in LIVE], during, actor)
    if name is not None:
        _rename(reservation, name, actor)
    tell_pages(reservation)
    reservation.refresh_from_db()
    return reservation


def _change(reservation: Reservation, leases: list[Lease], during: DateTimeTZRange, actor: User) -> None:
    now = timezone.now()
    _check_state(reservation, leases, during)
    before = reservation.during
    if during == before:
        return
    request = request_again(reservation, during, actor)
    if gives_back_only(request):
        allowed = Allowed(checked_window(request, now), reservation.borrowed, [])
    else:
        promote_own(request)
        allowed = check_request(request, now)
        check_needs_no_approval(request, allowed.during)
    _rebind(request, reservation, leases, allowed, now)
    Reservation.objects.filter(pk=reservation.pk).update(borrowed=allowed.borrowed, during=allowed.during)
    record_change(
        actor=actor,
        action="reservation.moved" if before.lower != allowed.during.lower else "reservation.end_changed",
        subject=reservation.number,
        tenant_id=reservation.tenant_id,
        before={"start": before.lower.isoformat(), "end": before.upper.isoformat(), "borrowed": reservation.borrowed},
        after={
            "start": allowed.during.lower.isoformat(), "end": allowed.during.upper.isoformat(),
            "borrowed": allowed.borrowed,
        },
    )  # fmt: skip
    if actor.pk != reservation.owner_id:
        tell_owner(
            reservation, Kind.CHANGED, by=str(actor), starts_at=allowed.during.lower, ends_at=allowed.during.upper,
            was_starts_at=before.lower, was_ends_at=before.upper)  # fmt: skip


def gives_back_only(request: Request) -> bool:
    """Whether the new window lies within the one that is held."""
    held = request.instead_of.during if request.instead_of else None
    return held is not None and held.lower <= request.during.lower and request.during.upper <= held.upper


def _check_state(reservation: Reservation, leases: list[Lease], during: DateTimeTZRange) -> None:
    """Finished ones are history; what runs keeps its start."""
    if reservation.state not in OPEN or not leases:
        raise StateConflict(not_changeable(reservation))
    if any(lease.state not in BOUND for lease in leases):
        raise StateConflict(_("%(number)s is being stopped already.") % {"number": reservation.number})
    if during.lower != reservation.during.lower and any(lease.state != LeaseState.PLANNED for lease in leases):
        raise StateConflict(
            _("%(number)s has started: its start cannot be moved. Change its end, or release it.")
            % {"number": reservation.number}, field="start")  # fmt: skip


def not_changeable(reservation: Reservation) -> str:
    """Why its window cannot be changed: it waits for something, or is over."""
    if reservation.state in UNDER_WAY and reservation.state not in OPEN:
        return _("%(number)s is %(state)s: its window can be changed once it is confirmed. Cancel it to ask anew.") % {
            "number": reservation.number, "state": reservation.get_state_display()}  # fmt: skip
    return already(reservation)


def check_needs_no_approval(
    request: Request, during: DateTimeTZRange, *, policy: EffectivePolicy | None = None, leads: bool | None = None
) -> None:
    """A change above the threshold is a lead's, unless it costs no more than what was promised: nothing that stands is
    put in question for it. ``policy``: of the tenant, and ``leads``: whether the asker leads it, where they are known.
    """
    price = price_of(request, during)
    policy = policy or policy_of(request.tenant)
    threshold = above_threshold(request.created_by, request.tenant, policy, price, leads=leads)
    if threshold is None or (request.instead_of and price <= request.instead_of.price_slice_seconds):
        return
    numbers = {"asked": slice_hours(price, up=True), "threshold": slice_hours(threshold), "tenant": request.tenant}
    sentence = _(
        "This would cost %(asked)s slice-h; above %(threshold)s a lead of %(tenant)s decides. Ask one to change it for "
        "you."
    )
    raise PolicyRefused(sentence % numbers, {"asked_slice_seconds": price, "threshold_slice_seconds": threshold})


def _rebind(
    request: Request, reservation: Reservation, leases: list[Lease], allowed: Allowed, now: dt.datetime
) -> None:
    """The same places where they are free, else new ones for what no node knows of."""
    during, told = allowed.during, any(lease.frozen_at is not None for lease in leases)
    if told and during.lower != reservation.during.lower:
        # A node may start by its own clock what it was told of: that is withdrawn, and started again once it is gone.
        claimed = _second_place(request, reservation, allowed, now)
    elif gives_back_only(request) or (allowed.crowded is None and _stays(leases, during)):
        set_window(reservation, leases, during)
        return
    elif told:
        make_way(_own_place(request, leases, allowed, now), by=reservation, now=now, own=leases)
        set_window(reservation, leases, during)
        return
    else:
        claimed = find_place(request, allowed, now, without=[lease.pk for lease in leases])
        withdraw_leases(leases, MOVED)  # what moves for it may come to sit there
    make_way(claimed, by=reservation, now=now, own=leases)
    if told:
        withdraw_leases(leases, MOVED)
    reservation.during, reservation.borrowed = during, allowed.borrowed
    bind(reservation, request.profile, claimed.placements, now, freeze=not told)


def _second_place(request: Request, reservation: Reservation, allowed: Allowed, now: dt.datetime) -> Claimed:
    try:
        return find_place(request, allowed, now)
    except NoCapacity as refusal:
        if refusal.message != no_room(request).message:
            raise
        sentence = _(
            "The node has been told of %(number)s already, so a move needs another place than its own, and "
            "%(pool)s has none in this window."
        )
        raise NoCapacity(
            sentence % {"number": reservation.number, "pool": request.pool}, {"ranks": request.ranks}, field="start"
        ) from refusal


def _stays(leases: list[Lease], during: DateTimeTZRange) -> bool:
    """Whether every rank's place is free for the whole new window, on a GPU that takes leases or that it runs on."""
    return not in_the_way(leases, during).exists() and may_stay(leases, during)


def may_stay(leases: list[Lease], during: DateTimeTZRange) -> bool:
    """Whether the GPUs take these leases for that long, whoever else is there. A node that is being emptied is."""
    gpus = Gpu.objects.filter(pk__in=[lease.gpu_id for lease in leases]).select_related("node")
    if any(closures(gpus, during).values()):
        return False
    bookable = set(bookable_gpus(leases[0].reservation.pool).values_list("pk", flat=True))
    kept = {gpu.pk for gpu in gpus if gpu.node.state not in (NodeState.DRAINING, NodeState.MAINTENANCE)}
    return all(
        lease.gpu_id in bookable or (lease.state != LeaseState.PLANNED and lease.gpu_id in kept) for lease in leases
    )


def in_the_way(leases: list[Lease], during: DateTimeTZRange) -> QuerySet[Lease]:
    """Leases of others on these places within the window, the first to begin first."""
    same_place = Q()
    for lease in leases:
        same_place |= Q(gpu_id=lease.gpu_id, span__overlap=lease.span)
    rows = Lease.objects.filter(same_place, state__in=LIVE, during__overlap=during)
    return rows.exclude(pk__in=[lease.pk for lease in leases]).order_by("during")


def _own_place(request: Request, leases: list[Lease], allowed: Allowed, now: dt.datetime) -> Claimed:
    """What has started, or is with its node, cannot go elsewhere: who borrows there gives way, or it is refused."""
    claimed = None
    if not allowed.borrowed and may_stay(leases, allowed.during):
        own = [lease.pk for lease in leases]
        claimed = claim_room(request, allowed, now, without=own, place=_here(leases, allowed.during))
    if claimed is not None:
        return claimed
    if allowed.crowded and not in_the_way(leases, allowed.during).filter(reservation__borrowed=False).exists():
        raise allowed.crowded
    raise _taken(leases, allowed.during)


def _here(leases: Sequence[Lease], during: DateTimeTZRange) -> Place:
    placements = tuple(Placement(lease.rank, lease.gpu_id, lease.span.lower, lease.span.upper) for lease in leases)
    window = window_of(during)

    def place(views: Sequence[GpuView]) -> tuple[Placement, ...]:
        taken = {view.gpu_id: taken_mask(view, window) for view in views}
        free = all(
            one.gpu_id in taken and not taken[one.gpu_id] & span_mask(one.start, one.end - one.start)
            for one in placements
        )
        return placements if free else ()

    return place


def _taken(leases: list[Lease], during: DateTimeTZRange) -> NoCapacity:
    """What has started, or is with its node, cannot go elsewhere: how far its own place is free, in numbers."""
    following = in_the_way(leases, during).first()
    return place_taken_from(following.during.lower if following else None)


def place_taken_from(start: dt.datetime | None) -> NoCapacity:
    """By the next reservation there; None when it is no reservation that stands in the way."""
    if start is None:
        return NoCapacity(_("Its GPU takes no lease for all of this window."), field="end")
    return NoCapacity(
        _("Its place is free until %(until)s; then the next reservation begins there.")
        % {"until": f"{timezone.localtime(start):%Y-%m-%d %H:%M}"},
        {"free_until": start.isoformat()}, field="end")  # fmt: skip


def _rename(reservation: Reservation, name: str, actor: User) -> None:
    if reservation.state not in UNDER_WAY:
        raise StateConflict(already(reservation))
    workload = reservation.workload
    try:
        before, workload.name = workload.name, check_name(name)
    except DraftRefused as error:
        raise WorkloadRefused(str(error), field="name") from error
    if workload.name == before:
        return
    workload.save(update_fields=["name"])
    record_change(
        actor=actor, action="reservation.renamed", subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"name": before}, after={"name": workload.name})  # fmt: skip
