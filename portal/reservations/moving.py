"""Changing one's mind: another window or another name. All ranks together, by the rules that a new booking obeys."""

import datetime as dt

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Gpu
from portal.notices.models import Kind
from portal.quotas.policies import policy_of
from portal.reservations.booking import find_place, lock_budgets, retried
from portal.reservations.changing import already, lock_whole
from portal.reservations.closures import closures
from portal.reservations.ending import WITHDRAWABLE, withdraw_leases
from portal.reservations.errors import NoCapacity, PolicyRefused, StateConflict
from portal.reservations.giving_way import give_way
from portal.reservations.models import LIVE, OPEN, UNDER_WAY, Lease, LeaseState, Reservation
from portal.reservations.reasons import slice_hours
from portal.reservations.rebinding import bind, set_window
from portal.reservations.request import Request, price_of, request_again
from portal.reservations.rules import Allowed, check_request
from portal.reservations.selectors import bookable_gpus
from portal.reservations.telling import tell_owner, tell_pages
from portal.tenants.models import Role
from portal.tenants.selectors import may
from portal.workloads.drafts import WorkloadDraft, check_draft


def change_window(*, reservation: Reservation, during: DateTimeTZRange, actor: User) -> Reservation:
    """Extend, shorten or move, all ranks or none; raises :class:`ReservationRefused` and changes nothing.

    What has started keeps its start and its place. What has not stays where it is if it can, and else is placed anew.
    Locks the pool, the budgets, the leases, the reservation.
    """
    return retried(reservation.pool, lambda: _change(reservation, during, actor))


def _change(reservation: Reservation, during: DateTimeTZRange, actor: User) -> Reservation:
    reservation, leases = lock_whole(reservation)
    lock_budgets(reservation.tenant)
    now = timezone.now()
    leases = [lease for lease in leases if lease.state in LIVE]
    _check_state(reservation, leases, during)
    request = request_again(reservation, during, actor)
    allowed = check_request(request, now)
    check_needs_no_approval(request, allowed.during)
    before = reservation.during
    _rebind(request, reservation, leases, allowed, now)
    Reservation.objects.filter(pk=reservation.pk).update(borrowed=allowed.borrowed, during=allowed.during)
    record_change(
        actor=actor,
        action="reservation.moved" if before.lower != allowed.during.lower else "reservation.end_changed",
        subject=reservation.number,
        tenant_id=reservation.tenant_id,
        before={"start": before.lower.isoformat(), "end": before.upper.isoformat()},
        after={"start": allowed.during.lower.isoformat(), "end": allowed.during.upper.isoformat()},
    )
    if actor.pk != reservation.owner_id:
        tell_owner(
            reservation, Kind.CHANGED, by=str(actor), starts_at=allowed.during.lower, ends_at=allowed.during.upper,
            was_starts_at=before.lower, was_ends_at=before.upper)  # fmt: skip
    tell_pages(reservation)
    reservation.refresh_from_db()
    return reservation


def _check_state(reservation: Reservation, leases: list[Lease], during: DateTimeTZRange) -> None:
    """Finished ones are history; what runs keeps its start."""
    if reservation.state not in OPEN or not leases:
        raise StateConflict(already(reservation))
    if any(lease.state not in WITHDRAWABLE for lease in leases):
        raise StateConflict(_("%(number)s is being stopped already.") % {"number": reservation.number})
    if during.lower != reservation.during.lower and any(lease.state != LeaseState.PLANNED for lease in leases):
        raise StateConflict(
            _("%(number)s has started: its start cannot be moved. Change its end, or release it.")
            % {"number": reservation.number}, field="start")  # fmt: skip


def check_needs_no_approval(request: Request, during: DateTimeTZRange) -> None:
    """A change above the threshold is a lead's: nothing that was promised is put in question for it."""
    threshold = policy_of(request.tenant).approval_above_slice_seconds
    price = price_of(request, during)
    if threshold is None or price <= threshold or may(request.created_by, request.tenant, Role.LEAD):
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
    told = any(lease.frozen_at is not None for lease in leases)
    if told and allowed.during.lower != reservation.during.lower:
        # A node may start by its own clock what it was told of: that is withdrawn, not moved.
        claimed = find_place(request, allowed, now)
    elif _stays(leases, allowed.during) and allowed.crowded is None:
        set_window(reservation, leases, allowed.during)
        return
    elif told:
        raise _taken(leases, allowed.during)
    else:
        claimed = find_place(request, allowed, now, without=[lease.pk for lease in leases])
    withdraw_leases(leases)
    reservation.during = allowed.during
    for victim in claimed.victims:
        give_way(victim, by=reservation, now=now)
    bind(reservation, request.profile, claimed.placements, now)


def _stays(leases: list[Lease], during: DateTimeTZRange) -> bool:
    """Whether every rank's place is free for the whole new window, on a GPU that takes leases or that it runs on."""
    if _in_the_way(leases, during).exists():
        return False
    gpus = Gpu.objects.filter(pk__in=[lease.gpu_id for lease in leases])
    if any(closures(gpus, during).values()):
        return False
    bookable = set(bookable_gpus(leases[0].reservation.pool).values_list("pk", flat=True))
    return all(lease.gpu_id in bookable or lease.state != LeaseState.PLANNED for lease in leases)


def _in_the_way(leases: list[Lease], during: DateTimeTZRange):
    same_place = Q()
    for lease in leases:
        same_place |= Q(gpu_id=lease.gpu_id, span__overlap=lease.span)
    rows = Lease.objects.filter(same_place, state__in=LIVE, during__overlap=during)
    return rows.exclude(pk__in=[lease.pk for lease in leases])


def _taken(leases: list[Lease], during: DateTimeTZRange) -> NoCapacity:
    """What has started, or is with its node, cannot go elsewhere: how far its own place is free, in numbers."""
    following = _in_the_way(leases, during).order_by("during").first()
    if following is None:
        return NoCapacity(_("Its GPU takes no lease for all of this window."), field="end")
    until = timezone.localtime(following.during.lower)
    return NoCapacity(
        _("Its place is free until %(until)s; then the next reservation begins there.")
        % {"until": f"{until:%Y-%m-%d %H:%M}"},
        {"free_until": following.during.lower.isoformat()}, field="end")  # fmt: skip


def rename_reservation(*, reservation: Reservation, name: str, actor: User) -> Reservation:
    """Another name for the workload while the reservation is under way; raises StateConflict once it is over."""
    return retried(reservation.pool, lambda: _rename(reservation, name, actor))


def _rename(reservation: Reservation, name: str, actor: User) -> Reservation:
    reservation, _leases = lock_whole(reservation)
    if reservation.state not in UNDER_WAY:
        raise StateConflict(already(reservation))
    workload = reservation.workload
    before, workload.name = workload.name, check_draft(WorkloadDraft(name)).name
    workload.save(update_fields=["name"])
    record_change(
        actor=actor, action="reservation.renamed", subject=reservation.number, tenant_id=reservation.tenant_id,
        before={"name": before}, after={"name": workload.name})  # fmt: skip
    tell_pages(reservation)
    return reservation
