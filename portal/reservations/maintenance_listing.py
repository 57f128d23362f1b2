"""Maintenance as people read it: what is ahead, under way and over, and what comes next to a node or a pool."""

import datetime as dt
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.inventory.models import Node, Pool
from portal.reservations.context import Shell
from portal.reservations.cordoning import NOBODY, Counting
from portal.reservations.maintenance_effects import Affected, Fate
from portal.reservations.models import Maintenance, Reservation
from portal.reservations.templatetags.berth_format import moment

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PAST_A_PAGE = 50
MOST_OPEN = 200
FATE_WORDS = {
    Fate.MOVED: ("ready", gettext_lazy("gets another place")),
    Fate.RUNS: ("active", gettext_lazy("runs to its end")),
    Fate.CUT: ("waiting", gettext_lazy("is cut short")),
    Fate.STAYS: ("degraded", gettext_lazy("has no other place")),
    Fate.DISPLACED: ("failed", gettext_lazy("is taken out and queued")),
    Fate.LAPSES: ("failed", gettext_lazy("loses the place held for it")),
}


@dataclass(frozen=True)
class Row:
    """One reservation as the list shows it, with the moment that the word is about; names only where the reader may
    see the tenant."""

    reservation: Reservation
    mark: str
    word: str
    seen: bool
    at: dt.datetime | None = None


def rows() -> QuerySet[Maintenance]:
    return Maintenance.objects.select_related("node", "pool", "created_by")


def open_rows() -> list[Maintenance]:
    """Under way and ahead, the next first."""
    lasting = rows().filter(ended_at__isnull=True, cancelled_at__isnull=True)
    return list(lasting.order_by("during", "pk")[:MOST_OPEN])


def past_rows() -> QuerySet[Maintenance]:
    return rows().filter(Q(ended_at__isnull=False) | Q(cancelled_at__isnull=False)).order_by("-during", "-pk")


def next_for(*, node: Node | None = None, pool: Pool | None = None) -> Maintenance | None:
    """The running or else the next one of a node (its pool's and everything's count) or of a pool."""
    concerned = Q(node__isnull=True, pool__isnull=True)
    if node is not None:
        concerned |= Q(node=node) | Q(pool__in=node.gpus.filter(pool__isnull=False).values("pool"))
    if pool is not None:
        concerned |= Q(pool=pool)
    lasting = rows().filter(concerned, ended_at__isnull=True, cancelled_at__isnull=True)
    return lasting.order_by("during", "pk").first()


def state_of(row: Maintenance, now: dt.datetime) -> tuple[str, str]:
    """Class of parts/state and word."""
    if row.cancelled_at:
        return "ended", _("Cancelled")
    if row.ended_at:
        return "ended", _("Over")
    if row.started_at or row.during.lower <= now:
        return "maint", _("Under way")
    return "planned", _("Planned")


def affected_shown(affected: Affected | None, shell: Shell, counting: Counting = NOBODY) -> dict[str, object]:
    """The context of who is affected; ``affected`` None: nothing was asked yet."""
    if affected is None:
        return {"affected": None, "shown": [], "count": 0}
    shown = [*shown_effects(affected, shell), *shown_counting(counting, shell)]
    return {"affected": affected, "shown": shown, "count": len(affected.effects) + len(counting)}


def shown_effects(affected: Affected, shell: Shell, most: int = 200) -> list[Row]:
    """The gravest first; an admin of the platform sees every tenant."""
    seen = {tenant.pk for tenant in shell.tenants}
    order = [Fate.DISPLACED, Fate.LAPSES, Fate.STAYS, Fate.CUT, Fate.MOVED, Fate.RUNS]
    ranked = sorted(affected.effects, key=lambda effect: order.index(effect.fate))[:most]
    return [_row(effect.reservation, *FATE_WORDS[effect.fate], seen, effect.ends_at) for effect in ranked]


def shown_counting(counting: Counting, shell: Shell) -> list[Row]:
    seen = {tenant.pk for tenant in shell.tenants}
    waits = _("was to start here, and waits for another place")
    keeps = _("keeps the place offered to it until %(time)s")
    return [
        *(_row(one, "waiting", waits, seen) for one in counting.waiting),
        *(_row(one, "starting", keeps % {"time": moment(one.hold_expires_at)}, seen) for one in counting.offered),
    ]


def _row(
    reservation: Reservation, mark: str, word: "StrOrPromise", seen: Container[int], at: dt.datetime | None = None
) -> Row:
    return Row(reservation, mark, str(word), reservation.tenant_id in seen, at)
