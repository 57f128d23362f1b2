"""Ways on for a reservation whose place goes out of service: up to three, each with one click."""

import datetime as dt
import shlex
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu
from portal.reservations.alternatives import Alternative
from portal.reservations.availability import with_alternatives
from portal.reservations.closures import open_maintenance
from portal.reservations.errors import NoCapacity
from portal.reservations.forms import OWN_COMMAND, with_alternative
from portal.reservations.models import BOUND, Maintenance, Reservation
from portal.reservations.ways_on import WayOn, ways_on


@dataclass(frozen=True)
class Choice:
    """``href`` leads to the reserve form with the values filled in; without one the window alone changes, here."""

    way: WayOn
    href: str


def maintenance_under(reservation: Reservation) -> list[Maintenance]:
    """Open maintenance that meets the reservation's own leases, the first to begin first."""
    gpus = Gpu.objects.filter(leases__reservation=reservation, leases__state__in=BOUND)
    nodes, pools = {gpu.node_id for gpu in gpus}, {gpu.pool_id for gpu in gpus}
    rows = open_maintenance(reservation.during).select_related("node", "pool").order_by("during")
    concerned = [one for one in rows if _of_everything(one) or one.node_id in nodes or one.pool_id in pools]
    return concerned if gpus else []


def _of_everything(one: Maintenance) -> bool:
    return one.node_id is None and one.pool_id is None


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
