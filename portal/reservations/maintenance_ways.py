"""Ways on for a reservation whose place goes out of service: up to three, each with one click."""

import datetime as dt
import shlex
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Exists, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.reservations.alternatives import Alternative
from portal.reservations.availability import with_alternatives
from portal.reservations.closures import open_maintenance
from portal.reservations.errors import NoCapacity
from portal.reservations.forms import OWN_COMMAND, with_alternative
from portal.reservations.models import BOUND, Lease, Maintenance, Reservation
from portal.reservations.ways_on import WayOn, ways_on


@dataclass(frozen=True)
class Choice:
    """``href`` leads to the reserve form with the values filled in; without one the window alone changes, here."""

    way: WayOn
    href: str


def maintenance_under(reservation: Reservation) -> list[Maintenance]:
    """Open maintenance that meets the reservation's own leases, the first to begin first."""
    leases = Lease.objects.filter(reservation=reservation, state__in=BOUND)
    of_everything = Q(node=None, pool=None) & Exists(leases)
    concerned = of_everything | Q(node__in=leases.values("gpu__node")) | Q(pool__in=leases.values("gpu__pool"))
    rows = open_maintenance(reservation.during).filter(concerned)
    return list(rows.select_related("node", "pool").order_by("during"))


def choices_for(reservation: Reservation) -> list[Choice]:
    """What the owner could have instead, as it is now. Nothing is locked or held."""
    what = {
        "tenant": reservation.tenant, "pool": reservation.pool, "profile": reservation.profile,
        "ranks": reservation.ranks, "during": _ahead(reservation.during),
    }  # fmt: skip
    refusal = with_alternatives(NoCapacity(_("Its place goes out of service.")), owner=reservation.owner, **what)
    ways = ways_on(what["profile"], what["ranks"], what["during"], refusal.alternatives)
    return [Choice(way, _href(reservation, one, way)) for one, way in zip(refusal.alternatives, ways, strict=True)]


def _ahead(during: DateTimeTZRange) -> DateTimeTZRange:
    """A window that began has its rest ahead."""
    now = timezone.now().replace(microsecond=0)
    return DateTimeTZRange(max(during.lower, now), max(during.upper, now + dt.timedelta(minutes=1)), "[)")


def _href(reservation: Reservation, one: Alternative, way: WayOn) -> str:
    same = (one.pool, one.profile, one.ranks) == (reservation.pool, reservation.profile, reservation.ranks)
    if same:
        return ""
    workload = reservation.workload
    known = {"tenant": str(reservation.tenant_id), "name": workload.name, "workload": OWN_COMMAND}
    values = with_alternative({**known, "command": shlex.join(workload.command), "take": way.value, "check": "1"})
    return f"{reverse('reserve')}?{urlencode({key: text for key, text in values.items() if key != 'take'})}"
