"""Maintenance: planning it says who is affected, moves what can be moved and tells the owners of the rest.

Platform admins only. ``run_maintenance`` in ``maintenance_sweep`` takes the nodes out when it begins and gives them
back when it is over.
"""

import datetime as dt

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal import events
from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Node, NodeState, Pool
from portal.reservations.errors import NoAccess, ReservationRefused, StateConflict, WindowRefused
from portal.reservations.maintenance_closing import Closing, closing_of, scope_of
from portal.reservations.maintenance_effects import Affected, affected_by, carry_out
from portal.reservations.maintenance_locks import pools_of, under_locks
from portal.reservations.maintenance_nodes import give_back_nodes
from portal.reservations.models import Maintenance
from portal.reservations.windows import START_GRACE
from portal.tenants.selectors import is_platform_admin

LONGEST = dt.timedelta(days=366)


def preview_maintenance(
    node: Node | None, pool: Pool | None, during: DateTimeTZRange, now: dt.datetime | None = None
) -> Affected:
    """What planning this would do now, without doing it: no lock, nothing is written."""
    now = now or timezone.now()
    return affected_by(_closing(node, pool, during, "", now), now)


def plan_maintenance(
    *, actor: User, node: Node | None, pool: Pool | None, during: DateTimeTZRange, reason: str
) -> tuple[Maintenance, Affected]:
    """Of a node, a pool or, with neither, everything. Raises :class:`ReservationRefused` and stores nothing.

    Locks the pools concerned by id, the leases there, their reservations, the nodes.
    """
    check_admin(actor)
    reason = checked_reason(reason)
    if node is not None and (pool is not None or node.state == NodeState.RETIRED):
        raise WindowRefused(_("Name a node in service or a pool, not both."), field="node")
    return under_locks(pools_of(scope_of(node, pool)), lambda: _plan(actor, node, pool, during, reason))


def _plan(
    actor: User, node: Node | None, pool: Pool | None, during: DateTimeTZRange, reason: str
) -> tuple[Maintenance, Affected]:
    now = timezone.now()
    check_during(during, now)
    closing = _closing(node, pool, during, reason, now)
    row = Maintenance.objects.create(
        node=node, pool=pool, during=during, stops_at=closing.stops_at, reason=reason, created_by=actor, created_at=now
    )
    closing = closing_of(row)
    affected = affected_by(closing, now, lock=True)
    carry_out(affected, closing, now, actor)
    record(actor, "maintenance.planned", row, after={**_times(during), "reason": reason, **affected.counts})
    tell_everybody(row)
    return row, affected


def change_maintenance(*, actor: User, maintenance: Maintenance, ends_at: dt.datetime) -> tuple[Maintenance, Affected]:
    """Another end. Who comes to lie within the longer window is affected as when it is planned."""
    check_admin(actor)
    return under_locks(_pools_of(maintenance), lambda: _change(actor, maintenance, ends_at))


def _change(actor: User, maintenance: Maintenance, ends_at: dt.datetime) -> tuple[Maintenance, Affected]:
    now = timezone.now()
    row = locked(maintenance)
    before = row.during
    during = DateTimeTZRange(before.lower, ends_at, "[)") if ends_at > before.lower else None
    if during is None or ends_at <= now:
        raise WindowRefused(_("The end must be after the start and ahead. To stop now, end it."), field="end")
    if ends_at - before.lower > LONGEST:
        raise _too_long()
    longer = ends_at > before.upper
    stops_at = max(row.stops_at or before.lower, now + settings.DISPLACE_NOTICE) if longer else row.stops_at
    Maintenance.objects.filter(pk=row.pk).update(during=during, stops_at=stops_at)
    row = _read(row.pk)
    affected = Affected()
    if longer:
        affected = affected_by(closing_of(row), now, lock=True).beyond(before)
        carry_out(affected, closing_of(row), now, actor)
    record(actor, "maintenance.changed", row, before=_times(before), after={**_times(during), **affected.counts})
    tell_everybody(row)
    return row, affected


def cancel_maintenance(*, actor: User, maintenance: Maintenance) -> Maintenance:
    """Before it has begun. Whom it moved or cut short stays so: their owners were told, and may have planned on it."""
    check_admin(actor)
    return under_locks(_pools_of(maintenance), lambda: _cancel(actor, maintenance))


def _cancel(actor: User, maintenance: Maintenance) -> Maintenance:
    row = locked(maintenance)
    if row.started_at is not None:
        raise StateConflict(_("It has begun. End it instead."))
    Maintenance.objects.filter(pk=row.pk, cancelled_at__isnull=True).update(cancelled_at=timezone.now())
    return _over(actor, "maintenance.cancelled", row)


def end_maintenance(*, actor: User, maintenance: Maintenance) -> Maintenance:
    """Before its time; its nodes come back at once."""
    check_admin(actor)
    return under_locks(_pools_of(maintenance), lambda: _end(actor, maintenance))


def _end(actor: User, maintenance: Maintenance) -> Maintenance:
    row = locked(maintenance)
    now = timezone.now()
    if row.started_at is None and row.during.lower > now:
        raise StateConflict(_("It has not begun. Cancel it instead."))
    Maintenance.objects.filter(pk=row.pk, ended_at__isnull=True).update(ended_at=now)
    return _over(actor, "maintenance.ended", row)


def _over(actor: User | None, action: str, row: Maintenance) -> Maintenance:
    record(actor, action, row, before=_times(row.during))
    tell_everybody(row)
    give_back_nodes(timezone.now())
    return _read(row.pk)


def locked(maintenance: Maintenance) -> Maintenance:
    """The open row as it is under its lock; raises StateConflict when it is over."""
    row = Maintenance.objects.select_for_update(no_key=True).get(pk=maintenance.pk)
    if not row.is_open:
        raise StateConflict(_("This maintenance is over already."))
    return _read(row.pk)


def _read(pk: int) -> Maintenance:
    return Maintenance.objects.select_related("node", "pool", "created_by").get(pk=pk)


def _pools_of(maintenance: Maintenance) -> list[Pool]:
    return pools_of(scope_of(maintenance.node, maintenance.pool))


def _closing(
    node: Node | None, pool: Pool | None, during: DateTimeTZRange, reason: str, now: dt.datetime
) -> Closing:
    """Who runs now is given notice, also where the maintenance begins sooner."""
    stops_at = max(during.lower, now + settings.DISPLACE_NOTICE)
    return closing_of(Maintenance(node=node, pool=pool, during=during, stops_at=stops_at, reason=reason))


def check_admin(actor: User) -> None:
    if not is_platform_admin(actor):
        raise NoAccess(_("Only a platform admin takes GPUs out of service."))


def checked_reason(reason: str) -> str:
    reason = " ".join(reason.split())
    if not reason or len(reason) > 200 or not reason.isprintable():
        raise ReservationRefused(_("Say why in 1 to 200 characters: everybody reads it."), field="reason")
    return reason


def check_during(during: DateTimeTZRange, now: dt.datetime) -> None:
    if during.lower < now - START_GRACE:
        raise WindowRefused(_("The start is in the past."), field="start")
    if during.upper - during.lower > LONGEST:
        raise _too_long()


def _too_long() -> WindowRefused:
    return WindowRefused(_("A maintenance lasts at most %(days)d days.") % {"days": LONGEST.days}, field="end")


def _times(during: DateTimeTZRange) -> dict[str, str]:
    return {"start": during.lower.isoformat(), "end": during.upper.isoformat()}


def record(
    actor: User | None, action: str, row: Maintenance, *, before: dict | None = None, after: dict | None = None
) -> None:
    record_change(actor=actor, action=action, subject=str(row), before=before or {}, after=after or {})


def tell_everybody(row: Maintenance) -> None:
    """Pages that draw nodes draw their maintenance too."""
    events.tell_everybody_on_commit("node.changed", maintenance=row.pk)
